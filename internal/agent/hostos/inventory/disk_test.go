package inventory

import (
	"errors"
	"testing"
	"time"
)

// A disk is low while less than what images and pods need is free in one of their directories; the least counts.
func TestDisks(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 1, time.UTC)
	free := map[string]int64{}
	d := Disks{Now: func() time.Time { return now }, Space: func(dir string) (int64, int64, error) {
		if free[dir] < 0 {
			return 0, 0, errors.New("away")
		}
		return free[dir], 100 * gib, nil
	}}
	for _, tc := range []struct {
		containerd, kubelet int64
		path                string
		free                int32
		begins              bool
	}{
		{containerd: 5 * gib, kubelet: 50 * gib},
		{containerd: 5*gib - 1, kubelet: 50 * gib, path: nodeDirs[0], free: 4, begins: true},
		{containerd: 4 * gib, kubelet: 0, path: nodeDirs[1], free: 0},
		{containerd: -1, kubelet: 5 * gib},
		{containerd: 50 * gib, kubelet: 3*gib - 1, path: nodeDirs[1], free: 2, begins: true},
	} {
		now = now.Add(time.Minute)
		free[nodeDirs[0]], free[nodeDirs[1]] = tc.containerd, tc.kubelet
		low := d.Low()
		switch {
		case low == nil && tc.path == "":
		case low == nil || tc.path == "" || low.Path != tc.path || *low.FreeGiB != tc.free || tc.begins != low.Since.Time.Equal(now.Truncate(time.Second)):
			t.Errorf("%+v: got %+v at %s", tc, low, now)
		}
	}
}
