package vip

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
)

// Network is what the holder needs of the kernel.
type Network interface {
	// Addresses lists the addresses of the interfaces that are up, loopback excluded.
	Addresses() ([]network.Address, error)
	// DefaultLink is the interface of the default route of a family; empty without one.
	DefaultLink(v6 bool) (string, error)
	// Add adds an address that the kernel removes after the lifetime. On one that
	// is there already it sets the lifetime anew.
	Add(link string, address netip.Prefix, lifetime time.Duration) error
	// Remove removes an address; one that is not there is no error.
	Remove(link string, address netip.Prefix) error
	// Announce tells the neighbours that the address is here now.
	Announce(link string, address netip.Addr) error
	// Probe asks the neighbours for the address and returns the hardware address
	// of one that answers; empty when none does.
	Probe(link string, address netip.Addr) (string, error)
	// MAC returns the MAC address of an interface; empty when it has none.
	MAC(link string) string
}

// Holder holds at most one address at a time.
type Holder struct {
	Network Network
	// Interface to hold the address on. Empty means the interface that one of Node or NodeIPs
	// is on, or else the one of the default route of the address's family.
	Interface string
	// Node returns the addresses that were decided for the node on the host, without those that
	// nobody decided. May be nil.
	Node func() []netip.Addr
	// NodeIPs of the host, if they are configured.
	NodeIPs []netip.Addr
	Log     *slog.Logger
}

// Hold adds the address, or sets its lifetime anew, and announces it when it was
// not there. The kernel removes it when the lifetime, in whole seconds, is over:
// an agent that hangs or is dead does not keep the address from another host.
//
// The interface must have another address already, and the virtual one is the last of its family
// there: the first one on an interface is what the kubelet and others take for the node's own.
func (h Holder) Hold(ip netip.Addr, lifetime time.Duration) error {
	addresses, err := h.Network.Addresses()
	if err != nil {
		return err
	}
	known := linkOf(addresses, ip) != ""
	if on, first := comesFirst(addresses, ip); first {
		// The network was configured anew: the host's own address went, and came back behind this one.
		if err := h.Network.Remove(on, host(ip)); err != nil {
			return fmt.Errorf("move the virtual IP %s behind the address of the host: %w", ip, err)
		}
		known = false
	}
	link, err := h.linkFor(ip)
	if err != nil {
		return err
	}
	if err := h.Network.Add(link, host(ip), lifetime); err != nil {
		return fmt.Errorf("add the virtual IP %s to %s: %w", ip, link, err)
	}
	if known {
		return nil
	}
	h.Log.Info("holding the virtual IP", "address", ip, "interface", link)
	if err := h.Network.Announce(link, ip); err != nil {
		h.Log.Warn("the neighbours learn the virtual IP late", "address", ip, "err", err)
	}
	return nil
}

// comesFirst says that an IPv4 address comes before another one of its interface, by the order in
// which the kernel lists them. Of IPv6 addresses, those that are deprecated are not chosen.
func comesFirst(addresses []network.Address, ip netip.Addr) (link string, first bool) {
	for _, a := range addresses {
		switch {
		case a.Prefix.Addr() == ip:
			link = a.Link
		case link != "" && a.Link == link && a.Prefix.Addr().Is4() && ip.Is4():
			return link, true
		}
	}
	return link, false
}

// Duplicate returns the MAC address of another machine that has the address; empty when
// none has.
func (h Holder) Duplicate(ip netip.Addr) (string, error) {
	link, err := h.linkFor(ip)
	if err != nil {
		return "", err
	}
	return h.Network.Probe(link, ip)
}

// MAC returns the MAC address of the interface for the address; empty when it is not known.
func (h Holder) MAC(ip netip.Addr) string {
	link, err := h.linkFor(ip)
	if err != nil {
		return ""
	}
	return h.Network.MAC(link)
}

// Release removes the address wherever it is.
func (h Holder) Release(ip netip.Addr) error {
	addresses, err := h.Network.Addresses()
	if err != nil {
		return err
	}
	for link := linkOf(addresses, ip); link != ""; link = "" {
		if err := h.Network.Remove(link, host(ip)); err != nil {
			return fmt.Errorf("remove the virtual IP %s from %s: %w", ip, link, err)
		}
		h.Log.Info("released the virtual IP", "address", ip, "interface", link)
	}
	return nil
}

// Held reports whether the host has the address.
func (h Holder) Held(ip netip.Addr) (bool, error) {
	addresses, err := h.Network.Addresses()
	return linkOf(addresses, ip) != "", err
}

// Announce tells the neighbours again that the address is here, if it is.
func (h Holder) Announce(ip netip.Addr) error {
	addresses, err := h.Network.Addresses()
	if err != nil {
		return err
	}
	if link := linkOf(addresses, ip); link != "" {
		return h.Network.Announce(link, ip)
	}
	return nil
}

// linkFor returns the interface that has the address, or that would have it.
func (h Holder) linkFor(ip netip.Addr) (string, error) {
	addresses, err := h.Network.Addresses()
	if err != nil {
		return "", err
	}
	if link := linkOf(addresses, ip); link != "" {
		return link, nil
	}
	link := h.Interface
	if link == "" && h.Node != nil {
		for _, own := range h.Node() {
			if on := linkOf(addresses, own); on != "" && (link == "" || own.Is4() == ip.Is4()) {
				link = on
			}
		}
	}
	if link == "" && len(h.NodeIPs) > 0 {
		own := h.NodeIPs[0]
		for _, other := range h.NodeIPs {
			if other.Is4() == ip.Is4() {
				own = other
			}
		}
		if link = linkOf(addresses, own); link == "" {
			return "", fmt.Errorf("no interface that is up has the configured nodeIP %s", own)
		}
	}
	for _, v6 := range []bool{ip.Is6(), !ip.Is6()} {
		if link != "" {
			break
		}
		if link, err = h.Network.DefaultLink(v6); err != nil {
			return "", err
		}
	}
	for _, a := range addresses {
		if link == "" || a.Link == link {
			return a.Link, nil
		}
	}
	return "", fmt.Errorf("no interface with an address is up to hold the virtual IP (want %q); set nodeInterface in the agent's configuration", link)
}

func linkOf(addresses []network.Address, ip netip.Addr) string {
	for _, a := range addresses {
		if a.Prefix.Addr() == ip {
			return a.Link
		}
	}
	return ""
}

func host(ip netip.Addr) netip.Prefix { return netip.PrefixFrom(ip, ip.BitLen()) }
