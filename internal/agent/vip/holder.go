package vip

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"
)

const (
	// checkInterval is how often a held address is looked for.
	checkInterval = 2 * time.Second
	// announceEvery is the number of checks between announcements.
	announceEvery = 15
)

// Address is one address of an interface that is up.
type Address struct {
	Link   string
	Prefix netip.Prefix
}

// Network is what the holder needs of the kernel.
type Network interface {
	// Addresses lists the addresses of the interfaces that are up, loopback excluded.
	Addresses() ([]Address, error)
	// DefaultLink is the interface of the default route; empty without one.
	DefaultLink() (string, error)
	// Add adds an address; one that is there already is no error.
	Add(link string, address netip.Prefix) error
	// Remove removes an address; one that is not there is no error.
	Remove(link string, address netip.Prefix) error
	// Announce tells the neighbours that the address is here now.
	Announce(link string, address netip.Addr) error
}

// Holder holds at most one address at a time.
type Holder struct {
	Network Network
	// Interface to hold the address on. Empty means the interface that NodeIP
	// is on, or else the one of the default route.
	Interface string
	// NodeIP of the host, if it is configured.
	NodeIP netip.Addr
	Log    *slog.Logger
}

// Hold adds the address and announces it when it was not there. It may be
// repeated. The interface must have another address already: the first one on
// an interface is what the kubelet takes for the node's own.
func (h Holder) Hold(ip netip.Addr) error {
	addresses, err := h.Network.Addresses()
	if err != nil {
		return err
	}
	if linkOf(addresses, ip) != "" {
		return nil
	}
	link, err := h.link(addresses)
	if err != nil {
		return err
	}
	if err := h.Network.Add(link, host(ip)); err != nil {
		return fmt.Errorf("add the virtual IP %s to %s: %w", ip, link, err)
	}
	h.Log.Info("holding the virtual IP", "address", ip, "interface", link)
	if err := h.Network.Announce(link, ip); err != nil {
		h.Log.Warn("the neighbours learn the virtual IP late", "address", ip, "error", err)
	}
	return nil
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

// Keep holds the address that wanted returns until the context ends; the zero
// address means none. Losing it, as by a link that was reconfigured, is healed.
func (h Holder) Keep(ctx context.Context, wanted func() netip.Addr) {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	failed := false
	for tick := 0; ; tick++ {
		if ip := wanted(); ip.IsValid() {
			err := h.Hold(ip)
			if err == nil && tick%announceEvery == 0 {
				err = h.announce(ip)
			}
			if err != nil && !failed {
				h.Log.Error("cannot hold the virtual IP, trying again", "address", ip, "error", err)
			}
			failed = err != nil
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (h Holder) announce(ip netip.Addr) error {
	addresses, err := h.Network.Addresses()
	if err != nil {
		return err
	}
	if link := linkOf(addresses, ip); link != "" {
		return h.Network.Announce(link, ip)
	}
	return nil
}

func (h Holder) link(addresses []Address) (string, error) {
	link := h.Interface
	if link == "" && h.NodeIP.IsValid() {
		if link = linkOf(addresses, h.NodeIP); link == "" {
			return "", fmt.Errorf("no interface that is up has the configured nodeIP %s", h.NodeIP)
		}
	}
	if link == "" {
		var err error
		if link, err = h.Network.DefaultLink(); err != nil {
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

func linkOf(addresses []Address, ip netip.Addr) string {
	for _, a := range addresses {
		if a.Prefix.Addr() == ip {
			return a.Link
		}
	}
	return ""
}

func host(ip netip.Addr) netip.Prefix { return netip.PrefixFrom(ip, ip.BitLen()) }
