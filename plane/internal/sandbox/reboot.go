package sandbox

import (
	"path/filepath"
	"strings"

	"github.com/slipway-dev/slipway/internal/durable"
)

// A host cannot switch itself on again: all its processes are in a namespace that
// ends with its init. So it leaves word on its disk, and ends; whoever has the
// power in hand looks for that (localhost.Manager.ServeReboots).

// rebootMark holds the ID of the boot that asked for another.
const rebootMark = stateDir + "/reboot"

// maxMark is how much of a mark is read, in bytes.
const maxMark = 1024

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
	asked, err := inside(dir).readFile(rebootMark, maxMark)
	return err == nil && r.BootID != "" && strings.TrimSpace(string(asked)) == r.BootID
}

// ForgetReboot takes the mark away: the host is switched off, or on, for good.
func ForgetReboot(dir string) error { return inside(dir).remove(rebootMark) }
