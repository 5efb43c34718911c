package network

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	mdnetlink "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Attributes of a nexthop object, to which many routes can lead (linux/nexthop.h).
const (
	nexthopID    = 1 // NHA_ID
	nexthopGroup = 2 // NHA_GROUP
	nexthopOIF   = 5 // NHA_OIF

	nexthopHeader = 8 // struct nhmsg
)

// nexthopSettings are the attributes that somebody gave it: the others tell how it is used.
var nexthopSettings = []uint16{nexthopID, nexthopGroup, 3, 4, nexthopOIF, 6, 7, 8, 11, 12}

// nexthop is what is recorded of one: enough to make it again.
type nexthop struct {
	Family   uint8             `json:"family,omitempty"`
	Protocol uint8             `json:"proto,omitempty"`
	OnLink   bool              `json:"onlink,omitempty"`
	Dev      string            `json:"dev,omitempty"`
	Settings map[uint16][]byte `json:"settings"`
}

func (n nexthop) name() string {
	return fmt.Sprintf("id %d", binary.NativeEndian.Uint32(n.Settings[nexthopID]))
}

func (n nexthop) message() ([]byte, error) {
	data := make([]byte, nexthopHeader)
	data[0], data[2] = n.Family, n.Protocol
	if n.OnLink {
		binary.NativeEndian.PutUint32(data[4:], unix.RTNH_F_ONLINK)
	}
	var all []mdnetlink.Attribute
	for _, t := range nexthopSettings {
		if value, there := n.Settings[t]; there {
			all = append(all, mdnetlink.Attribute{Type: t, Data: value})
		}
	}
	if n.Dev != "" {
		link, err := netlink.LinkByName(n.Dev)
		if err != nil {
			return nil, err
		}
		all = append(all, mdnetlink.Attribute{Type: nexthopOIF, Data: binary.NativeEndian.AppendUint32(nil, uint32(link.Attrs().Index))})
	}
	attributes, err := mdnetlink.MarshalAttributes(all)
	return slices.Concat(data, attributes), err
}

// listNexthops returns them by name.
func listNexthops() (map[string]nexthop, error) {
	replies, err := dump(unix.NETLINK_ROUTE, unix.RTM_GETNEXTHOP, make([]byte, nexthopHeader))
	if absent(err) {
		return nil, nil // an older kernel
	}
	if err != nil {
		return nil, err
	}
	_, names, err := listLinks()
	if err != nil {
		return nil, err
	}
	found := make(map[string]nexthop, len(replies))
	for _, m := range replies {
		if len(m) < nexthopHeader {
			return nil, errors.New("nexthops: a message that is too short")
		}
		attributes, err := mdnetlink.UnmarshalAttributes(m[nexthopHeader:])
		if err != nil {
			return nil, err
		}
		n := nexthop{Family: m[0], Protocol: m[2], OnLink: binary.NativeEndian.Uint32(m[4:])&unix.RTNH_F_ONLINK != 0, Settings: map[uint16][]byte{}}
		for _, a := range attributes {
			switch {
			case a.Type == nexthopOIF && len(a.Data) == 4:
				n.Dev = names[int(binary.NativeEndian.Uint32(a.Data))]
			case slices.Contains(nexthopSettings, a.Type):
				n.Settings[a.Type] = a.Data
			}
		}
		if len(n.Settings[nexthopID]) != 4 {
			return nil, errors.New("nexthops: one without an ID")
		}
		found[n.name()] = n
	}
	return found, nil
}

func lookNexthops() (map[string]string, error) {
	return marshalled(ReadAll(listNexthops))
}

// removeNexthops removes them with the routes that lead to them. A group goes with the last of its members.
func removeNexthops(names []string) error {
	all, err := ReadAll(listNexthops)
	errs := []error{err}
	for _, name := range names {
		if n, there := all[name]; there {
			only := nexthop{Settings: map[uint16][]byte{nexthopID: n.Settings[nexthopID]}}
			errs = append(errs, unlessGone(only.send(unix.RTM_DELNEXTHOP, 0), "remove nexthop "+name))
		}
	}
	return errors.Join(errs...)
}

// restoreNexthops restores those first that groups name.
func restoreNexthops(before map[string]string) error {
	var errs []error
	for _, groups := range []bool{false, true} {
		for name, was := range before {
			n := nexthop{}
			err := json.Unmarshal([]byte(was), &n)
			if _, group := n.Settings[nexthopGroup]; err == nil && group == groups {
				err = n.send(unix.RTM_NEWNEXTHOP, mdnetlink.Create|mdnetlink.Replace)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("restore nexthop %s: %w", name, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (n nexthop) send(message mdnetlink.HeaderType, flags mdnetlink.HeaderFlags) error {
	data, err := n.message()
	if err != nil {
		return err
	}
	c, err := mdnetlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_, err = c.Execute(mdnetlink.Message{Header: mdnetlink.Header{Type: message, Flags: mdnetlink.Request | mdnetlink.Acknowledge | flags}, Data: data})
	return err
}
