package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"filippo.io/age"

	"github.com/slipway-dev/slipway/internal/durable"
)

// WriteKey writes a new key to a file that does not exist, as age-keygen does, and returns its public half.
func WriteKey(path string) (recipient string, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s exists: it may be the only key of backups; name another file", path)
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return "", err
	}
	recipient = identity.Recipient().String()
	text := fmt.Sprintf("# created: %s\n# public key: %s\n%s\n", time.Now().UTC().Format(time.RFC3339), recipient, identity)
	return recipient, durable.Write(path, []byte(text), 0o600)
}
