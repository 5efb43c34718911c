package doctor

import (
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// filled has little space on a host for ten minutes.
func filled(host int) func(s *Snapshot) {
	return func(s *Snapshot) {
		s.Hosts[host].Status.LowDisk = &infrav1.HostLowDisk{Path: "/var/lib/kubelet", FreeGiB: ptr.To[int32](1), NeededGiB: 5, Since: ago(10 * time.Minute)}
	}
}

var _ = add([]testCase{
	{"the disk of a free host is full", filled(1), []want{{"LowDisk", Warning, h2, 10 * time.Minute, "1 GiB are free below /var/lib/kubelet: images and pods need at least 5 GiB", "on the host: du "}}},
	{"the disk of a host in use is full", filled(0), nil},
}...)
