package inventory

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// DiskNeededGiB must be free for images and pods.
const DiskNeededGiB = 5

const gib = 1 << 30

// nodeDirs are where images and pods are.
var nodeDirs = []string{"/var/lib/containerd", "/var/lib/kubelet"}

// Disks finds file systems with too little space for a node. It remembers since when that is so.
type Disks struct {
	// Space is how many bytes are free below a directory, and how many its file system has.
	Space func(dir string) (free, size int64, err error)
	// Now is the clock.
	Now func() time.Time

	mu    sync.Mutex
	since time.Time
}

// Low returns the directory of nodeDirs with the least space; nil while each has enough. What cannot be read has
// enough.
func (d *Disks) Low() *infrav1.HostLowDisk {
	var low *infrav1.HostLowDisk
	for _, dir := range nodeDirs {
		free, _, err := d.Space(dir)
		if has := int32(min(max(free, 0)/gib, DiskNeededGiB)); err == nil && has < DiskNeededGiB && (low == nil || has < *low.FreeGiB) {
			low = &infrav1.HostLowDisk{Path: dir, FreeGiB: ptr.To(has), NeededGiB: DiskNeededGiB}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case low == nil:
		d.since = time.Time{}
		return nil
	case d.since.IsZero():
		d.since = d.Now().Truncate(time.Second)
	}
	low.Since = metav1.NewTime(d.since)
	return low
}
