package doctor

import (
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// outdated has a host whose operating system has asked for a reboot for ten minutes.
func outdated(host int, kernel string, packages ...string) func(s *Snapshot) {
	return func(s *Snapshot) {
		s.Hosts[host].Status.Inventory.KernelVersion = "6.1.0-27-amd64"
		s.Hosts[host].Status.RebootRequired = &infrav1.HostRebootRequired{KernelVersion: kernel, Packages: packages, Since: ago(10 * time.Minute)}
	}
}

var _ = add([]testCase{
	{"a node has a newer kernel", outdated(0, "6.1.0-28-amd64"), []want{{"RebootRequired", Note, h1, 10 * time.Minute,
		"its operating system asks for a reboot; kernel 6.1.0-28-amd64 is installed, 6.1.0-27-amd64 runs", "slipway host reboot h1 --drain -n prod"}}},
	{"a free host has other libraries", outdated(1, "", "a", "b", "c", "d", "e", "f", "g"), []want{{"RebootRequired", Note, h2, 10 * time.Minute,
		"its operating system asks for a reboot; updated are a, b, c, d, e and 2 more", "on the host: systemctl reboot"}}},
	{"a mark alone", outdated(0, ""), []want{{"RebootRequired", Note, h1, 10 * time.Minute, "its operating system asks for a reboot", "slipway host reboot h1 --drain -n prod"}}},
}...)
