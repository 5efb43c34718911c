package vm

import (
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/test/live"
)

const (
	// tapName is the card's end on the bridge.
	tapName = "vm-1"
	// bridge of a plane's network namespace.
	bridge = "br0"
)

// plug makes a network card in the network namespace of a plane, as a port of its bridge.
// The card is gone once its file is closed, here and in QEMU.
func plug(plane string) (*os.File, error) {
	var card *os.File
	err := live.Inside(plane, func() (err error) {
		card, err = plugHere()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("plug a network card into the bridge of %s: %w", plane, err)
	}
	return card, nil
}

func plugHere() (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	card := os.NewFile(uintptr(fd), tapName)
	if err := attach(fd); err != nil {
		_ = card.Close()
		return nil, err
	}
	return card, nil
}

func attach(fd int) error {
	request, err := unix.NewIfreq(tapName)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return err
	}
	link, err := netlink.LinkByName(tapName)
	if err != nil {
		return err
	}
	master, err := netlink.LinkByName(bridge)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetMaster(link, master); err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}
