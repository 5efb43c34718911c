package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-dev/slipway/internal/durable"
)

// A host cannot switch itself on again: all its processes are in a namespace that
// ends with its init. So it leaves word on its disk, and ends; whoever has the
// power in hand looks for that (localhost.Manager.ServeReboots).

// rebootMark holds the ID of the boot that asked for another.
const rebootMark = stateDir + "/reboot"

// requestReboot leaves the mark on the disk whose root is at root.
func requestReboot(root, bootID string) error {
	return durable.Write(filepath.Join(root, rebootMark), []byte(bootID+"\n"), 0o600)
}

// WantsReboot reports whether the host in dir asked, in its last boot, to be
// switched on again when that is over.
func WantsReboot(dir string) bool {
	r, err := LoadRecord(dir)
	if err != nil {
		return false
	}
	asked, err := os.ReadFile(filepath.Join(dir, rebootMark))
	return err == nil && r.BootID != "" && strings.TrimSpace(string(asked)) == r.BootID
}

// ForgetReboot takes the mark away: the host is switched off, or on, for good.
func ForgetReboot(dir string) error {
	if err := os.Remove(filepath.Join(dir, rebootMark)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
