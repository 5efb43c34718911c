package step

import (
	"crypto/sha256"
	"encoding/hex"
)

const maxName = 63

// shorten keeps names as they are up to 63 characters; of longer ones a hash of the
// whole replaces the end.
func shorten(name string) string {
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:])[:10]
	return name[:maxName-len(hash)-1] + "-" + hash
}
