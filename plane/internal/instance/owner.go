package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-dev/slipway/internal/durable"
)

// ownersDir tells which state directory a name belongs to. Like the namespaces
// and cgroups of that name it does not outlive a boot of the machine.
var ownersDir = "/run/slipway"

// Own makes the name this plane's, for as long as it has a network namespace and
// cgroups: two planes of one name would tear down each other's. The command's
// lock must be held.
func (i *Instance) Own() error {
	data, err := os.ReadFile(i.ownerFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	owner := strings.TrimSpace(string(data))
	if owner == i.Dir {
		return nil
	}
	// A directory that was removed by hand owns nothing any more.
	if other, err := Open(owner); owner != "" && err == nil && other.Name == i.Name {
		return fmt.Errorf("the name %s belongs to the plane in %s: run `slipway down --state-dir %s` first, or choose another name with --name", i.Name, owner, owner)
	}
	if err := os.MkdirAll(ownersDir, 0o755); err != nil {
		return err
	}
	return durable.Write(i.ownerFile(), []byte(i.Dir+"\n"), 0o644)
}

// Owns reports whether what runs under the name is this plane's.
func (i *Instance) Owns() bool {
	data, err := os.ReadFile(i.ownerFile())
	return err != nil || strings.TrimSpace(string(data)) == i.Dir
}

// Disown frees the name.
func (i *Instance) Disown() error {
	if !i.Owns() {
		return nil
	}
	if err := os.Remove(i.ownerFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Remove(ownersDir) // unless another plane is there
	return nil
}

func (i *Instance) ownerFile() string { return filepath.Join(ownersDir, i.Name) }
