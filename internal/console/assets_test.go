package console

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"
)

// What is not ours is what its README says it is.
func TestVendoredFilesAreWhatTheyWere(t *testing.T) {
	readme, err := assets.ReadFile("assets/README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` .*`([0-9a-f]{64})` \\|$").FindAllStringSubmatch(string(readme), -1)
	named := map[string]bool{}
	for _, row := range rows {
		named[row[1]] = true
		content, err := assets.ReadFile("assets/" + row[1])
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != row[2] {
			t.Errorf("%s has another checksum than assets/README.md says", row[1])
		}
	}
	files, err := assets.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file.Name(), ".min.js") && !named[file.Name()] {
			t.Errorf("assets/README.md does not name %s", file.Name())
		}
	}
}
