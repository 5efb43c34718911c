package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/durable"
)

// The path becomes part of mount options, of unit files and of shell scripts of
// the hosts, and none of their ways of quoting is common to all.
var validDir = regexp.MustCompile(`^/[A-Za-z0-9/._@+=-]+$`)

// maxDir leaves room for the sockets inside, whose paths Linux limits to 107 bytes.
const maxDir = 85

// checkDir refuses a path that would fail later with a message nobody understands.
func checkDir(dir string) error {
	if !validDir.MatchString(dir) {
		return fmt.Errorf("--state-dir %q: want a path of letters, digits and . _ @ + = - only, without spaces", dir)
	}
	if len(dir) > maxDir {
		return fmt.Errorf("--state-dir %s: the path has %d characters, and %d leave room for the sockets in it; choose a shorter one", dir, len(dir), maxDir)
	}
	return nil
}

// leftover reports whether a file may lie in a directory that holds no plane: what
// a crash leaves while a plane is made or removed, and what file systems bring.
func leftover(name string) bool {
	return name == lockFile || name == "lost+found" || strings.HasPrefix(name, durable.Temporary(ConfigFile))
}

// Remove deletes the state directory. What makes it a plane's goes last, so that
// after a crash the command can be given again.
func (i *Instance) Remove() error {
	entries, err := os.ReadDir(i.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	last := []string{ConfigFile, lockFile}
	for _, e := range entries {
		if slices.Contains(last, e.Name()) {
			continue
		}
		if err := os.RemoveAll(i.Path(e.Name())); err != nil {
			return err
		}
	}
	for _, name := range append(last, "") {
		err := os.Remove(filepath.Join(i.Dir, name))
		// A directory that is a mount point stays, empty.
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return nil
}
