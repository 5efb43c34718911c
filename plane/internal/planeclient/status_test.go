package planeclient

import (
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// A machine that has lost the address at which it listens is told from one that has it.
func TestOutsideStatus(t *testing.T) {
	for name, c := range map[string]struct {
		addresses []string
		message   string
	}{
		"here":   {[]string{"127.0.0.1:6443"}, ""},
		"all":    {[]string{"[::]:6443"}, ""},
		"gone":   {[]string{"127.0.0.1:6443", "192.0.2.1:6443"}, "has no address 192.0.2.1 any more"},
		"gone 6": {[]string{"[2001:db8::1]:6443"}, "has no address 2001:db8::1 any more"},
	} {
		plane := status.Plane{Ready: true}
		if err := outsideStatus(&plane, &statedir.Outside{Server: "https://plane.example:6443", Addresses: c.addresses}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if plane.HostServer != "https://plane.example:6443" || !strings.Contains(plane.HostServerMessage, c.message) || (c.message == "") != (plane.HostServerMessage == "") {
			t.Errorf("%s: %+v, want %q", name, plane, c.message)
		}
	}
	plane := status.Plane{}
	if err := outsideStatus(&plane, nil); err != nil || plane != (status.Plane{}) {
		t.Errorf("a plane that listens for nobody: %+v, %v", plane, err)
	}
}
