package vip

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
)

// fake is a Network in memory.
type fake struct {
	addresses   []network.Address
	defaultLink string
	announced   []string
	announceErr error
}

func (f *fake) Addresses() ([]network.Address, error) { return f.addresses, nil }
func (f *fake) DefaultLink(bool) (string, error)      { return f.defaultLink, nil }
func (f *fake) Add(link string, p netip.Prefix, _ time.Duration) error {
	if linkOf(f.addresses, p.Addr()) == "" {
		f.addresses = append(f.addresses, network.Address{Link: link, Prefix: p})
	}
	return nil
}
func (f *fake) Probe(string, netip.Addr) (string, error) { return "", nil }
func (f *fake) MAC(link string) string                   { return "mac of " + link }
func (f *fake) Remove(link string, p netip.Prefix) error {
	for i, a := range f.addresses {
		if a == (network.Address{Link: link, Prefix: p}) {
			f.addresses = append(f.addresses[:i], f.addresses[i+1:]...)
			return nil
		}
	}
	return errors.New("not there")
}
func (f *fake) Announce(link string, ip netip.Addr) error {
	f.announced = append(f.announced, link+" "+ip.String())
	return f.announceErr
}

func holder(f *fake) Holder { return Holder{Network: f, Log: slog.New(slog.DiscardHandler)} }

var (
	virtual = netip.MustParseAddr("10.88.0.200")
	eth0    = network.Address{Link: "eth0", Prefix: netip.MustParsePrefix("10.88.0.11/24")}
	eth1    = network.Address{Link: "eth1", Prefix: netip.MustParsePrefix("192.168.0.11/24")}
)

func TestHoldPicksTheInterface(t *testing.T) {
	for name, c := range map[string]struct {
		configure func(*Holder, *fake)
		want      string
		problem   string
	}{
		"default route":        {func(_ *Holder, f *fake) { f.defaultLink = "eth1" }, "eth1", ""},
		"no default route":     {func(*Holder, *fake) {}, "eth0", ""},
		"interface configured": {func(h *Holder, f *fake) { h.Interface = "eth1"; f.defaultLink = "eth0" }, "eth1", ""},
		"address configured":   {func(h *Holder, _ *fake) { h.NodeIPs = []netip.Addr{eth1.Prefix.Addr()} }, "eth1", ""},
		"address decided": {func(h *Holder, f *fake) {
			h.Node = func() []netip.Addr { return []netip.Addr{eth1.Prefix.Addr()} }
			f.defaultLink = "eth0"
		}, "eth1", ""},
		"decided, and lost": {func(h *Holder, f *fake) {
			h.Node = func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("1.2.3.4")} }
			f.defaultLink = "eth0"
		}, "eth0", ""},
		"address not there":      {func(h *Holder, _ *fake) { h.NodeIPs = []netip.Addr{netip.MustParseAddr("1.2.3.4")} }, "", "nodeIP 1.2.3.4"},
		"interface not there":    {func(h *Holder, _ *fake) { h.Interface = "eth9" }, "", "nodeInterface"},
		"no address yet on boot": {func(_ *Holder, f *fake) { f.addresses = nil; f.defaultLink = "eth0" }, "", "no interface"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{addresses: []network.Address{eth0, eth1}}
			h := holder(f)
			c.configure(&h, f)
			err := h.Hold(virtual, time.Minute)
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Fatalf("error is %v, want %q", err, c.problem)
				}
				return
			}
			if err != nil || linkOf(f.addresses, virtual) != c.want || len(f.announced) != 1 {
				t.Fatalf("addresses %v, announced %v: %v", f.addresses, f.announced, err)
			}
		})
	}
}

func TestHoldAndReleaseRepeat(t *testing.T) {
	f := &fake{addresses: []network.Address{eth0}, announceErr: errors.New("no raw sockets")}
	h := holder(f)
	for range 2 {
		if err := h.Hold(virtual, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if held, _ := h.Held(virtual); !held || len(f.addresses) != 2 || f.addresses[1].Prefix.Bits() != 32 || len(f.announced) != 1 {
		t.Fatalf("addresses %v, announced %v", f.addresses, f.announced)
	}
	for range 2 {
		if err := h.Release(virtual); err != nil {
			t.Fatal(err)
		}
	}
	if held, _ := h.Held(virtual); held || len(f.addresses) != 1 {
		t.Fatalf("addresses %v", f.addresses)
	}
}

func TestARPPackets(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	want := []byte{0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 88, 0, 200, 0, 0, 0, 0, 0, 0, 10, 88, 0, 200}
	if got := arpPacket(mac, virtual, virtual); !bytes.Equal(got, want) {
		t.Fatalf("announcement is % x, want % x", got, want)
	}
	if got := owner(want, virtual); !bytes.Equal(got, mac) {
		t.Errorf("owner is %s", got)
	}
	probe := arpPacket(mac, netip.IPv4Unspecified(), virtual)
	if got := owner(probe, virtual); got != nil {
		t.Errorf("a probe claims the address for %s", got)
	}
	if got := owner(want[:20], virtual); got != nil {
		t.Errorf("a short packet claims the address for %s", got)
	}
}
