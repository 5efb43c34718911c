package network

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
)

// HostInterface is the name of the interface that a host sees.
const HostInterface = "eth0"

// Link is the cable between a host and the bridge.
type Link struct {
	// Host names the cable's end on the bridge.
	Host string
	// PID is a process in the network namespace of the host.
	PID int
	// IP is the host's address; it must lie in Subnet. The host has its address of IPv6, too.
	IP netip.Addr
	// Cut leaves the cable unplugged: the host has its address but no carrier.
	Cut bool
}

// LinkState is what CutLink and HealLink change.
type LinkState string

// States of a link.
const (
	LinkUp     LinkState = "up"
	LinkCut    LinkState = "cut"
	LinkAbsent LinkState = "absent"
)

// AttachHost joins the host to the bridge and gives it its addresses and default
// routes. It finishes what an interrupted call began, and replaces a cable whose
// other end has gone.
func AttachHost(name string, l Link) error {
	if !Subnet.Contains(l.IP) || l.IP == Gateway {
		return fmt.Errorf("attach %s: %s is not a host address in %s", l.Host, l.IP, Subnet)
	}
	plane, err := handleAt(Path(name))
	if err != nil {
		return err
	}
	defer plane.Close()
	hostNS := fmt.Sprintf("/proc/%d/ns/net", l.PID)
	host, err := handleAt(hostNS)
	if err != nil {
		return err
	}
	defer host.Close()
	if err := ensureVeth(plane, host, hostNS, l); err != nil {
		return fmt.Errorf("attach %s: %w", l.Host, err)
	}
	if err := configureHostEnd(host, hostNS, l); err != nil {
		return fmt.Errorf("attach %s: %w", l.Host, err)
	}
	if err := configureBridgeEnd(plane, l); err != nil {
		return fmt.Errorf("attach %s: %w", l.Host, err)
	}
	return nil
}

func ensureVeth(plane, host *netlink.Handle, hostNS string, l Link) error {
	port := portName(l.Host)
	_, errHost := host.LinkByName(HostInterface)
	stale, errPort := plane.LinkByName(port)
	if errHost == nil && errPort == nil {
		return nil
	}
	// The namespace of a host that was just killed may outlive it for a moment, and its cable too.
	if errPort == nil {
		if err := plane.LinkDel(stale); err != nil && !isNotFound(err) {
			return fmt.Errorf("remove stale link %s: %w", port, err)
		}
	}
	ns, err := os.Open(hostNS)
	if err != nil {
		return err
	}
	defer ns.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = port
	veth := &netlink.Veth{
		LinkAttrs:        attrs,
		PeerName:         HostInterface,
		PeerHardwareAddr: hardwareAddr(l.IP),
		PeerNamespace:    netlink.NsFd(ns.Fd()),
	}
	if err := plane.LinkAdd(veth); err != nil {
		return fmt.Errorf("create veth pair %s (is the kernel's veth module there? `modprobe veth`): %w", port, err)
	}
	return nil
}

func configureHostEnd(host *netlink.Handle, hostNS string, l Link) error {
	eth, err := host.LinkByName(HostInterface)
	if err != nil {
		return fmt.Errorf("find %s: %w", HostInterface, err)
	}
	if err := host.AddrReplace(eth, addr(l.IP)); err != nil {
		return fmt.Errorf("add address %s: %w", l.IP, err)
	}
	// The host goes on with its boot once the link is up with the other one.
	if err := addIPv6(host, hostNS, eth, l.IP); err != nil {
		return err
	}
	if err := host.LinkSetUp(eth); err != nil {
		return fmt.Errorf("set %s up: %w", HostInterface, err)
	}
	gateways := []netip.Addr{Gateway}
	if six, err := host.AddrList(eth, netlink.FAMILY_V6); err == nil && len(six) > 0 {
		gateways = append(gateways, IPv6(Gateway))
	}
	for _, gateway := range gateways {
		if err := host.RouteReplace(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: gateway.AsSlice()}); err != nil {
			return fmt.Errorf("add default route by %s: %w", gateway, err)
		}
	}
	return nil
}

func configureBridgeEnd(plane *netlink.Handle, l Link) error {
	port, err := plug(plane, portName(l.Host))
	if err != nil {
		return err
	}
	if l.Cut {
		return plane.LinkSetDown(port)
	}
	return plane.LinkSetUp(port)
}

// plug makes a link a port of the bridge.
func plug(h *netlink.Handle, name string) (netlink.Link, error) {
	br, err := h.LinkByName(Bridge)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", Bridge, err)
	}
	link, err := h.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	if err := h.LinkSetMaster(link, br); err != nil {
		return nil, fmt.Errorf("plug %s into %s: %w", name, Bridge, err)
	}
	return link, nil
}

// CutLink unplugs the host: nothing it sends arrives and it sees no carrier.
func CutLink(name, host string) error {
	return withPort(name, host, func(h *netlink.Handle, port netlink.Link) error { return h.LinkSetDown(port) })
}

// HealLink plugs the host in again.
func HealLink(name, host string) error {
	return withPort(name, host, func(h *netlink.Handle, port netlink.Link) error { return h.LinkSetUp(port) })
}

// StateOf reports the state of the host's link.
func StateOf(name, host string) (LinkState, error) {
	state := LinkAbsent
	err := withPort(name, host, func(_ *netlink.Handle, port netlink.Link) error {
		state = LinkCut
		if port.Attrs().RawFlags&flagUp != 0 {
			state = LinkUp
		}
		return nil
	})
	if isNotFound(err) || errors.Is(err, os.ErrNotExist) {
		return LinkAbsent, nil
	}
	return state, err
}

// flagUp is IFF_UP: what was asked for, whether or not there is a carrier.
const flagUp = 1

func withPort(name, host string, fn func(*netlink.Handle, netlink.Link) error) error {
	h, err := handleAt(Path(name))
	if err != nil {
		return err
	}
	defer h.Close()
	port, err := h.LinkByName(portName(host))
	if err != nil {
		return fmt.Errorf("link of host %s: %w", host, err)
	}
	return fn(h, port)
}

// portName is the name of the bridge's end of the cable: readable if it fits
// into the 15 characters of an interface name, unique in any case.
func portName(host string) string { return cablePort("h-", host) }

func cablePort(prefix, name string) string {
	if port := prefix + name; len(port) <= 15 {
		return port
	}
	sum := sha256.Sum256([]byte(name))
	return prefix + name[:6] + "-" + hex.EncodeToString(sum[:3])
}

func isNotFound(err error) bool {
	var nf netlink.LinkNotFoundError
	return errors.As(err, &nf)
}
