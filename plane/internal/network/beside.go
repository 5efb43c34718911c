package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
)

// Neighbour is the address of a plane beside another.
var Neighbour = netip.MustParseAddr("10.88.0.2")

// ErrNoNetwork means that there is no network of that name to be beside of.
var ErrNoNetwork = errors.New("no plane of that name is up on this machine")

// Both ends of the cable between two bridges: in the namespace beside, and what the
// name of the other end begins with.
const (
	besideInterface  = "beside"
	besidePortPrefix = "p-"
)

// Network is that of one instance.
type Network struct {
	// Name of the instance.
	Name string
	// Beside is the instance whose bridge this one's is joined to: its hosts are
	// neighbours then. Empty for a network by itself.
	Beside string
}

// Address is the plane's own on the bridge.
func (n Network) Address() netip.Addr {
	if n.Beside == "" {
		return Gateway
	}
	return Neighbour
}

// Ensure creates the namespace of the instance, its loopback, its bridge with
// the plane's address, and switches forwarding on inside it. Beside another it plugs
// a cable between the two bridges. It may be called at any time and again after a
// crash at any point; ErrNoNetwork when the other is not up.
func (n Network) Ensure(ctx context.Context) error {
	if err := ValidateName(n.Name); err != nil {
		return err
	}
	unlock, err := lockNetnsDir(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := n.CheckBeside(); err != nil {
		return err
	}
	if err := pin(Path(n.Name)); err != nil {
		return err
	}
	if err := configure(n.Name, n.Address()); err != nil {
		return fmt.Errorf("network %s: %w", n.Name, err)
	}
	if n.Beside == "" {
		return nil
	}
	if err := n.join(); err != nil {
		return fmt.Errorf("join the network of %s: %w", n.Beside, err)
	}
	return nil
}

// CheckBeside says why the network cannot be beside the other. It changes nothing.
func (n Network) CheckBeside() error {
	if n.Beside == "" {
		return nil
	}
	if !Exists(n.Beside) {
		return fmt.Errorf("--beside %s: %w: run `slipway up --name %[1]s` first", n.Beside, ErrNoNetwork)
	}
	other, err := handleAt(Path(n.Beside))
	if err != nil {
		return err
	}
	defer other.Close()
	links, err := listLinks(other)
	if err != nil {
		return err
	}
	for _, l := range links {
		switch name := l.Attrs().Name; {
		case name == besideInterface:
			return fmt.Errorf("--beside %s: that plane is beside another itself; name the one that has the hosts", n.Beside)
		case strings.HasPrefix(name, besidePortPrefix) && name != cablePort(besidePortPrefix, n.Name):
			return fmt.Errorf("--beside %s: another plane is beside it already; take that one down first", n.Beside)
		}
	}
	return nil
}

// join plugs the cable. When the other namespace has been made anew, the cable to the
// old one may still be there for a moment.
func (n Network) join() error {
	own, err := handleAt(Path(n.Name))
	if err != nil {
		return err
	}
	defer own.Close()
	other, err := handleAt(Path(n.Beside))
	if err != nil {
		return err
	}
	defer other.Close()
	port := cablePort(besidePortPrefix, n.Name)
	cable, errOwn := own.LinkByName(besideInterface)
	_, errOther := other.LinkByName(port)
	if errOwn == nil && errOther != nil {
		if err := own.LinkDel(cable); err != nil && !isNotFound(err) {
			return fmt.Errorf("remove stale link %s: %w", besideInterface, err)
		}
	}
	if errOwn != nil || errOther != nil {
		if err := addCable(own, port, Path(n.Beside)); err != nil {
			return err
		}
	}
	return errors.Join(plugIn(own, besideInterface), plugIn(other, port))
}

func addCable(own *netlink.Handle, port, otherNS string) error {
	ns, err := os.Open(otherNS)
	if err != nil {
		return err
	}
	defer ns.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = besideInterface
	if err := own.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: port, PeerNamespace: netlink.NsFd(ns.Fd())}); err != nil {
		return fmt.Errorf("create veth pair %s: %w", port, err)
	}
	return nil
}

// plugIn plugs a link and sets it up.
func plugIn(h *netlink.Handle, name string) error {
	link, err := plug(h, name)
	if err != nil {
		return err
	}
	return h.LinkSetUp(link)
}
