package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestIPv6(t *testing.T) {
	for ip, want := range map[string]string{"10.88.0.1": "fd00:88::1", "10.88.0.11": "fd00:88::11", "10.88.0.99": "fd00:88::99", "10.88.0.200": "fd00:88::200"} {
		if got := IPv6(netip.MustParseAddr(ip)); got.String() != want || !Contains(got) {
			t.Errorf("%s: got %s, want %s", ip, got, want)
		}
	}
}

// attachedHost is a process in a network namespace that is attached as a host is.
func attachedHost(t *testing.T, network string, l Link) (nsPath string) {
	t.Helper()
	cmd := exec.Command("cat") // until the pipe is closed, which happens at a kill of this process too
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = input.Close(); _ = cmd.Wait() })
	l.PID = cmd.Process.Pid
	for range 2 { // again after an interruption
		if err := AttachHost(network, l); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)
}

// A host has addresses and default routes of both families, also when it boots with its cable cut.
func TestHostsHaveBothFamilies(t *testing.T) {
	name := newNetwork(t)
	if _, err := os.Stat("/proc/sys/net/ipv6"); err != nil {
		t.Skip("IPv6 NOT TESTED: the kernel has none")
	}
	for n, l := range []Link{{Host: "plugged", IP: netip.MustParseAddr("10.88.0.11")}, {Host: "cut", IP: netip.MustParseAddr("10.88.0.12"), Cut: true}} {
		host := attachedHost(t, name, l)
		h, err := handleAt(host)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		eth, err := h.LinkByName(HostInterface)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		addresses, err := h.AddrList(eth, netlink.FAMILY_V6)
		for _, a := range addresses {
			if a.IP.Equal(IPv6(l.IP).AsSlice()) {
				found = a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DEPRECATED) == 0
			}
		}
		if err != nil || !found {
			t.Errorf("%s has %v (%v), want %s, which may be used", l.Host, addresses, err, IPv6(l.IP))
		}
		routes, err := h.RouteList(eth, netlink.FAMILY_V6)
		found = false
		for _, r := range routes {
			found = found || r.Gw.Equal(IPv6(Gateway).AsSlice())
		}
		if err != nil || !found {
			t.Errorf("%s has the routes %v (%v), want a default route", l.Host, routes, err)
		}
		if l.Cut {
			if err := HealLink(name, l.Host); err != nil {
				t.Fatal(err)
			}
		}
		var listener net.Listener
		if err := inNamespace(Path(name), func() (err error) {
			listener, err = net.Listen("tcp", net.JoinHostPort(IPv6(Gateway).String(), "0"))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go greeter(listener, "plane")
		if err := inNamespace(host, func() error {
			conn, err := (&net.Dialer{}).DialContext(context.WithoutCancel(t.Context()), "tcp", listener.Addr().String())
			if err != nil {
				return err
			}
			return conn.Close()
		}); err != nil {
			t.Errorf("host %d does not reach the plane by IPv6: %v", n, err)
		}
	}
}
