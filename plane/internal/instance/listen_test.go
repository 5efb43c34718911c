package instance

import (
	"slices"
	"strings"
	"testing"
)

func TestListensAt(t *testing.T) {
	for _, c := range []struct {
		listen, names string
		host          string
		port          uint16
		told          string
	}{
		{"192.0.2.1", "", "192.0.2.1", 6443, "https://192.0.2.1:6443"},
		{"192.0.2.1:443", "", "192.0.2.1", 443, "https://192.0.2.1:443"},
		{"2001:db8::1", "", "2001:db8::1", 6443, "https://[2001:db8::1]:6443"},
		{"[2001:db8::1]", "", "2001:db8::1", 6443, "https://[2001:db8::1]:6443"},
		{"[2001:db8::1]:443", "", "2001:db8::1", 443, "https://[2001:db8::1]:443"},
		{"::ffff:192.0.2.1", "", "192.0.2.1", 6443, "https://192.0.2.1:6443"},
		{"Plane.Example:36443", "", "plane.example", 36443, "https://plane.example:36443"},
		{"192.0.2.1", "plane.example,203.0.113.9", "192.0.2.1", 6443, "https://plane.example:6443"},
		{"0.0.0.0", "203.0.113.9", "0.0.0.0", 6443, "https://203.0.113.9:6443"},
		{"[::]:443", "2001:db8::9", "::", 443, "https://[2001:db8::9]:443"},
	} {
		config := config()
		config.Listen, config.TLSNames = c.listen, c.names
		l, err := config.ListensAt()
		if err != nil {
			t.Errorf("--listen %s --tls-san %s: %v", c.listen, c.names, err)
			continue
		}
		if l.Host != c.host || l.Port != c.port || l.Server() != c.told || config.HostServer() != c.told {
			t.Errorf("--listen %s --tls-san %s: %+v, hosts are told %s, want %+v", c.listen, c.names, l, l.Server(), c)
		}
		if c.names != "" && !slices.Equal(l.Names, strings.Split(c.names, ",")) {
			t.Errorf("--tls-san %s: %v", c.names, l.Names)
		}
	}
	if l, err := config().ListensAt(); l != nil || err != nil || config().HostServer() != config().Server() {
		t.Errorf("a plane that listens for nobody: %+v, %v", l, err)
	}
}

func TestListenNamesTheRemedy(t *testing.T) {
	for _, c := range []struct{ listen, names, want string }{
		{"https://192.0.2.1:6443", "", "without a scheme"},
		{"192.0.2.1:0", "", "1 to 65535"},
		{"192.0.2.1:65536", "", "1 to 65535"},
		{"192.0.2.1:65535", "", "up to 65534"},
		{"0.0.0.0:36442", "a.example", "port 36443 of 127.0.0.1"},
		{"192.0.2.1:", "", "1 to 65535"},
		{"192.0.2.256", "", "neither an IP address nor a host name"},
		{":6443", "", "neither an IP address nor a host name"},
		{"a b", "", "neither an IP address nor a host name"},
		{"fe80::1%eth0", "", "zone"},
		{"0.0.0.0", "", "--tls-san"},
		{"[::]:443", "", "--tls-san"},
		{"0.0.0.0:36443", "a.example", "--api-port"},
		{"192.0.2.1", "a.example,", "--tls-san"},
		{"192.0.2.1", "*.example", "--tls-san"},
		{"192.0.2.1", "0.0.0.0", "no address that hosts reach"},
		{"", "a.example", "--listen"},
	} {
		config := config()
		config.Listen, config.TLSNames = c.listen, c.names
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("--listen %q --tls-san %q: %v, want %q", c.listen, c.names, err, c.want)
		}
	}
}

// Names of an address that is given up are given up with it.
func TestListenNoMore(t *testing.T) {
	i := newInstance(t)
	if err := i.Apply(Change{Listen: new("192.0.2.1"), TLSNames: new("a.example")}, false); err != nil {
		t.Fatal(err)
	}
	if err := i.Apply(Change{APIPort: 7}, false); err != nil || i.Listen != "192.0.2.1" || i.TLSNames != "a.example" {
		t.Errorf("the address is not kept: %+v, %v", i.Config, err)
	}
	if err := i.Apply(Change{Listen: new("")}, false); err != nil || i.Listen != "" || i.TLSNames != "" {
		t.Errorf("got %+v, %v", i.Config, err)
	}
}
