package inventory

import (
	"os"
	"sync"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// interval is how long what was read is good for: hardware hardly changes while a machine
// runs, and a link or a disk that comes and goes must not cost a report each time.
const interval = time.Hour

// Reader reads the hardware of a host, at most once an hour. It may be used by several
// goroutines.
type Reader struct {
	// Root of the host's file system.
	Root hostfs.Root
	// Now is the clock. Default: time.Now.
	Now func() time.Time

	mu    sync.Mutex
	due   time.Time
	found infrav1.HostHardware
}

// Read returns what was found; nobody may change it.
func (r *Reader) Read() infrav1.HostHardware {
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := now(); !at.Before(r.due) {
		r.found, r.due = look(r.Root), at.Add(interval)
	}
	return r.found
}

func look(root hostfs.Root) infrav1.HostHardware {
	return infrav1.HostHardware{
		BootMode: bootMode(root), CPU: cpu(root), System: system(root),
		Disks: disks(root), NetworkInterfaces: networkInterfaces(root), PCIDevices: pciDevices(root),
	}
}

// bootMode is empty where firmware left no traces, and in a container, where these are
// hidden.
func bootMode(root hostfs.Root) infrav1.BootMode {
	switch {
	case exists(root.Path("/sys/firmware/efi")):
		return infrav1.BootModeUEFI
	case exists(root.Path("/sys/firmware/dmi")):
		return infrav1.BootModeBIOS
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
