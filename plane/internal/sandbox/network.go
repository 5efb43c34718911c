package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// networkTimeout is how long a host waits for its cable.
const networkTimeout = 30 * time.Second

// sysctls of a node, all of the host's own network namespace.
var sysctls = []struct{ name, value string }{
	{"ipv4/ip_forward", "1"},
	{"ipv6/conf/all/forwarding", "1"},
	{"ipv6/conf/default/forwarding", "1"},
	// Replies may take another way than requests: loose.
	{"ipv4/conf/all/rp_filter", "2"},
	{"ipv4/conf/default/rp_filter", "2"},
	{"bridge/bridge-nf-call-iptables", "1"},
	{"bridge/bridge-nf-call-ip6tables", "1"},
}

// configureNetwork sets up what is the host's own affair and waits until eth0 is
// there with its address, which is plugged in from outside.
func configureNetwork(ctx context.Context, s Spec, _ Record) error {
	for _, c := range sysctls {
		err := os.WriteFile(filepath.Join("/proc/sys/net", c.name), []byte(c.value), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without the bridge filter
			return err
		}
	}
	if err := setUp("lo"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	for !hasAddress("eth0", s.IP.AsSlice()) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("no eth0 with address %s was attached within %s", s.IP, networkTimeout)
		case <-time.After(2 * time.Millisecond):
		}
	}
	return nil
}

func hasAddress(name string, ip net.IP) bool {
	i, err := net.InterfaceByName(name)
	if err != nil || i.Flags&net.FlagUp == 0 {
		return false
	}
	addrs, err := i.Addrs()
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}

// setUp is `ip link set NAME up`.
func setUp(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req); err != nil {
		return fmt.Errorf("flags of %s: %w", name, err)
	}
	req.SetUint16(req.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}
