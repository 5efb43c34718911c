package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// neighbour is an entry of the tables of neighbours that somebody made: one that does not age, one that a
// program keeps alive, or an address that the host answers for. Those that the kernel has found by itself
// are none.
type neighbour struct {
	MAC     string `json:"mac,omitempty"`
	State   int    `json:"state,omitempty"`
	Flags   int    `json:"flags,omitempty"`
	IP      net.IP `json:"ip"`
	Dev     string `json:"dev"`
	Family  int    `json:"family"`
	Managed bool   `json:"managed,omitempty"`
}

func (n neighbour) String() string {
	word := ""
	if n.Flags&netlink.NTF_PROXY != 0 {
		word = "proxy "
	}
	return word + n.IP.String() + " on " + n.Dev
}

const (
	extLearned = 0x10 // NTF_EXT_LEARNED
	extManaged = 1    // NTF_EXT_MANAGED
)

// listNeighbours returns them by name, with the handles by which they are removed.
func listNeighbours() (map[string]neighbour, map[string]netlink.Neigh, error) {
	_, names, err := listLinks()
	if err != nil {
		return nil, nil, err
	}
	found, handles := map[string]neighbour{}, map[string]netlink.Neigh{}
	for _, family := range families4and6 {
		for _, list := range []func(link, family int) ([]netlink.Neigh, error){netlink.NeighList, netlink.NeighProxyList} {
			all, err := ReadAll(func() ([]netlink.Neigh, error) { return list(0, family) })
			if err != nil && !absent(err) {
				return nil, nil, err
			}
			for _, r := range all {
				n := neighbour{IP: r.IP, Dev: names[r.LinkIndex], Family: family, Flags: r.Flags & (netlink.NTF_PROXY | extLearned), Managed: r.FlagsExt&extManaged != 0}
				lasting := r.State&netlink.NUD_PERMANENT != 0
				if n.Dev == "" || !lasting && n.Flags == 0 && !n.Managed {
					continue
				}
				if lasting {
					n.MAC, n.State = r.HardwareAddr.String(), netlink.NUD_PERMANENT
				}
				found[n.String()], handles[n.String()] = n, r
			}
		}
	}
	return found, handles, nil
}

func lookNeighbours() (map[string]string, error) {
	all, _, err := listNeighbours()
	return marshalled(all, err)
}

func removeNeighbours(names []string) error {
	_, handles, err := listNeighbours()
	errs := []error{err}
	for _, name := range names {
		if r, there := handles[name]; there {
			errs = append(errs, unlessGone(netlink.NeighDel(&netlink.Neigh{LinkIndex: r.LinkIndex, Family: r.Family, IP: r.IP, Flags: r.Flags & netlink.NTF_PROXY}), "remove neighbour "+name))
		}
	}
	return errors.Join(errs...)
}

// restoreNeighbours restores those that do not age; of the others a change is a program's own.
func restoreNeighbours(before map[string]string) error {
	var errs []error
	for name, was := range before {
		if err := restoreNeighbour(was); err != nil {
			errs = append(errs, fmt.Errorf("restore neighbour %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func restoreNeighbour(was string) error {
	n := neighbour{}
	if err := json.Unmarshal([]byte(was), &n); err != nil {
		return err
	}
	link, err := netlink.LinkByName(n.Dev)
	if err != nil {
		return err
	}
	is := &netlink.Neigh{LinkIndex: link.Attrs().Index, Family: n.Family, IP: n.IP, State: n.State, Flags: n.Flags}
	if n.MAC != "" {
		if is.HardwareAddr, err = net.ParseMAC(n.MAC); err != nil {
			return err
		}
	}
	return netlink.NeighSet(is)
}
