package vip

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// solicitPause is the time between two looks at the neighbour table.
const solicitPause = 10 * time.Millisecond

// found are the states of a neighbour that has answered.
const found = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE

// solicit lets the kernel ask for the neighbour with an IPv6 address (RFC 4861, 7.2.2), and
// returns its hardware address; empty when none answers. The kernel asks from its link-local
// address: on an interface without one it asks nobody.
func solicit(name string, ip netip.Addr) (string, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return "", err
	}
	index := link.Attrs().Index
	if len(link.Attrs().HardwareAddr) != hardwareSize {
		return "", nil
	}
	// What the table has may be of a holder that is gone.
	entry := &netlink.Neigh{LinkIndex: index, Family: netlink.FAMILY_V6, IP: ip.AsSlice()}
	if err := netlink.NeighDel(entry); err != nil && !errors.Is(err, unix.ENOENT) {
		return "", fmt.Errorf("forget the neighbour %s on %s: %w", ip, name, err)
	}
	entry.Flags = netlink.NTF_USE
	if err := netlink.NeighSet(entry); err != nil {
		return "", fmt.Errorf("solicit %s on %s: %w", ip, name, err)
	}
	for deadline := time.Now().Add(probes * probePause); time.Now().Before(deadline); time.Sleep(solicitPause) {
		neighbours, err := netlink.NeighList(index, netlink.FAMILY_V6)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return "", fmt.Errorf("read the neighbours on %s: %w", name, err)
		}
		for _, n := range neighbours {
			if a, _ := netip.AddrFromSlice(n.IP); a == ip && n.State&found != 0 {
				return n.HardwareAddr.String(), nil
			}
		}
	}
	return "", nil
}
