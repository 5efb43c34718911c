package serve

import (
	"net"
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// The certificate has what hosts call the plane, and no address that stands for all.
func TestSubjects(t *testing.T) {
	inside := net.IPv4(10, 88, 0, 1)
	for name, c := range map[string]struct {
		outside   *statedir.Outside
		addresses []string
		names     []string
	}{
		"nobody from outside": {nil, []string{"10.88.0.1", "fd00:88::1"}, nil},
		"an address":          {&statedir.Outside{Addresses: []string{"192.0.2.1:6443"}}, []string{"10.88.0.1", "fd00:88::1", "192.0.2.1"}, nil},
		"names besides": {
			&statedir.Outside{Addresses: []string{"192.0.2.1:6443", "[2001:db8::1]:6443"}, Names: []string{"plane.example", "203.0.113.9"}},
			[]string{"10.88.0.1", "fd00:88::1", "192.0.2.1", "2001:db8::1", "203.0.113.9"}, []string{"plane.example"},
		},
		"all addresses": {&statedir.Outside{Addresses: []string{"[::]:6443"}, Names: []string{"::", "0.0.0.0", "plane.example"}}, []string{"10.88.0.1", "fd00:88::1"}, []string{"plane.example"}},
	} {
		o := Options{Advertise: inside, Outside: c.outside}
		ips, names := o.subjects()
		addresses := make([]string, 0, len(ips))
		for _, ip := range ips {
			addresses = append(addresses, ip.String())
		}
		if !slices.Equal(addresses, c.addresses) || !slices.Equal(names, c.names) {
			t.Errorf("%s: %v and %v, want %v and %v", name, addresses, names, c.addresses, c.names)
		}
	}
}
