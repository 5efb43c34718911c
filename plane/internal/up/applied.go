package up

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/durable"
)

// appliedFile, in the state directory, holds a digest of each object as it was applied
// last. Without it nothing counts as applied before.
const appliedFile = "applied.json"

// appliedObjects knows which objects were applied before exactly as they are now.
type appliedObjects struct {
	path    string
	digests map[string]string
}

func readApplied(path string) (*appliedObjects, error) {
	a := &appliedObjects{path: path, digests: map[string]string{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &a.digests); err != nil {
		return nil, fmt.Errorf("%s: %w; remove the file, then `slipway up` again", path, err)
	}
	return a, nil
}

// before reports whether the object was applied as it is.
func (a *appliedObjects) before(name string, object *unstructured.Unstructured) bool {
	return a.digests[name] == digest(object)
}

// note remembers that the object was applied.
func (a *appliedObjects) note(name string, object *unstructured.Unstructured) error {
	if a.before(name, object) {
		return nil
	}
	a.digests[name] = digest(object)
	data, err := json.MarshalIndent(a.digests, "", "  ")
	if err != nil {
		return err
	}
	return durable.Write(a.path, append(data, '\n'), 0o600)
}

func digest(object *unstructured.Unstructured) string {
	data, err := json.Marshal(object.Object) // sorts the keys of maps
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
