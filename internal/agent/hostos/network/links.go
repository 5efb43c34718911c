package network

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// listLinks returns the links, and their names by index.
func listLinks() ([]netlink.Link, map[int]string, error) {
	links, err := ReadAll(netlink.LinkList)
	names := make(map[int]string, len(links))
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	return links, names, err
}

func lookLinks() (map[string]string, error) {
	links, names, err := listLinks()
	if err != nil {
		return nil, err
	}
	vlans, err := listVLANs(links)
	found := map[string]string{}
	for _, l := range links {
		a := l.Attrs()
		is := Link{
			Kind: l.Type(), Master: names[a.MasterIndex], MTU: a.MTU, XDP: a.Xdp != nil && a.Xdp.Attached,
			Down: a.RawFlags&unix.IFF_UP == 0, Promiscuous: a.RawFlags&unix.IFF_PROMISC != 0, AllMulticast: a.RawFlags&unix.IFF_ALLMULTI != 0,
			VLANs: vlans[a.Index], VFs: len(a.Vfs), NoARP: a.RawFlags&unix.IFF_NOARP != 0, NoMulticast: a.RawFlags&unix.IFF_MULTICAST == 0, Queue: a.TxQLen, Group: int(a.Group),
		}
		if is.Kind == "device" {
			is.MAC = a.HardwareAddr.String()
		}
		if is.Kind == "device" || is.Kind == "veth" { // those of others follow from what they are made of
			is.Segments = fmt.Sprintf("%d/%d/%d/%d", a.GSOMaxSize, a.GROMaxSize, a.GSOIPv4MaxSize, a.GROIPv4MaxSize)
		}
		if bridge, ok := l.(*netlink.Bridge); ok {
			is.FiltersVLANs = bridge.VlanFiltering != nil && *bridge.VlanFiltering
		}
		found[a.Name] = is.Fingerprint()
	}
	return found, err
}

// listVLANs returns the VLANs of bridges and their ports, by the number of the interface, as ranges with the flags p of the one for packets
// without a tag and u of those that are sent without one: 1pu,10-20.
func listVLANs(links []netlink.Link) (map[int]string, error) {
	if !slices.ContainsFunc(links, func(l netlink.Link) bool { return l.Type() == "bridge" }) {
		return nil, nil
	}
	var all map[int32][]*nl.BridgeVlanInfo
	_, err := ReadAll(func() (_ []int, err error) {
		all, err = netlink.BridgeVlanList()
		return nil, err
	})
	if absent(err) {
		return nil, nil // a kernel without
	}
	found := make(map[int]string, len(all))
	for index, of := range all {
		var words []string
		for at := 0; at < len(of); {
			end := at + 1
			for end < len(of) && of[end].Vid == of[end-1].Vid+1 && vlanFlags(of[end]) == vlanFlags(of[at]) {
				end++
			}
			word := strconv.Itoa(int(of[at].Vid))
			if end > at+1 {
				word += "-" + strconv.Itoa(int(of[end-1].Vid))
			}
			words, at = append(words, word+vlanFlags(of[at])), end
		}
		found[int(index)] = strings.Join(words, ",")
	}
	return found, err
}

func vlanFlags(v *nl.BridgeVlanInfo) (flags string) {
	if v.PortVID() {
		flags = "p"
	}
	if v.EngressUntag() {
		flags += "u"
	}
	return flags
}

// restoreVLANs gives a bridge, or a port, the VLANs that it had.
func restoreVLANs(link netlink.Link, was, is string) error {
	itself := link.Type() == "bridge"
	var errs []error
	for _, list := range []struct {
		text   string
		change func(link netlink.Link, vid, vidEnd uint16, pvid, untagged, self, master bool) error
	}{{is, netlink.BridgeVlanDelRange}, {was, netlink.BridgeVlanAddRange}} {
		for word := range strings.SplitSeq(list.text, ",") {
			ids := strings.TrimRight(word, "pu")
			first, last, ranged := strings.Cut(ids, "-")
			if !ranged {
				last = first
			}
			from, err := strconv.ParseUint(first, 10, 12)
			if err != nil {
				continue // none
			}
			to, err := strconv.ParseUint(last, 10, 12)
			if err == nil {
				err = list.change(link, uint16(from), uint16(to), strings.Contains(word, "p"), strings.HasSuffix(word, "u"), itself, !itself)
			}
			errs = append(errs, unlessGone(err, "restore the VLANs of "+link.Attrs().Name))
		}
	}
	return errors.Join(errs...)
}

func removeLinks(names []string) error {
	errs := make([]error, 0, len(names))
	for _, name := range names {
		link, err := netlink.LinkByName(name)
		if err == nil {
			if err = netlink.LinkDel(link); errors.Is(err, unix.EOPNOTSUPP) && link.Type() == "openvswitch" {
				err = removeSwitchPort(name)
			}
		}
		errs = append(errs, unlessGone(err, "remove network interface "+name))
	}
	return errors.Join(errs...)
}

// restoreLinks takes a link off a bridge, or gives it back to one, restores its MTU and its hardware address, and
// switches it on again. A program of XDP goes.
func restoreLinks(before map[string]string) error {
	var errs []error
	for name, was := range before {
		link, err := netlink.LinkByName(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("restore network interface %s: %w", name, err))
			continue
		}
		now, err := lookLinks()
		if err != nil {
			return err
		}
		if field(now[name], "xdp") != field(was, "xdp") && field(was, "xdp") == "false" {
			errs = append(errs, netlink.LinkSetXdpFd(link, -1))
		}
		if master := field(was, "master"); master == "" {
			errs = append(errs, netlink.LinkSetNoMaster(link))
		} else if master != field(now[name], "master") {
			bridge, err := netlink.LinkByName(master)
			if err == nil {
				err = netlink.LinkSetMaster(link, bridge)
			}
			errs = append(errs, err)
		}
		if mtu, err := strconv.Atoi(field(was, "mtu")); err == nil && field(now[name], "mtu") != field(was, "mtu") {
			errs = append(errs, netlink.LinkSetMTU(link, mtu))
		}
		if mac, err := net.ParseMAC(field(was, "mac")); err == nil && field(now[name], "mac") != field(was, "mac") {
			errs = append(errs, netlink.LinkSetHardwareAddr(link, mac))
		}
		errs = append(errs, restoreSettings(link, was, now[name]))
		if field(was, "down") == "false" && field(now[name], "down") == "true" {
			errs = append(errs, netlink.LinkSetUp(link))
		}
	}
	return errors.Join(errs...)
}

// restoreSettings restores what only some recorded: a setting that an older agent did not record stays as it is.
func restoreSettings(link netlink.Link, was, is string) error {
	differs := func(key string) bool { return field(was, key) != "" && field(was, key) != field(is, key) }
	var errs []error
	for _, flag := range []struct {
		key     string
		on, off func(netlink.Link) error
	}{
		{"allmulti", netlink.LinkSetAllmulticastOn, netlink.LinkSetAllmulticastOff}, {"noarp", netlink.LinkSetARPOff, netlink.LinkSetARPOn},
		{"nomulticast", netlink.LinkSetMulticastOff, netlink.LinkSetMulticastOn}, {"promiscuous", netlink.SetPromiscOn, netlink.SetPromiscOff},
	} {
		if set := flag.off; differs(flag.key) {
			if field(was, flag.key) == "true" {
				set = flag.on
			}
			errs = append(errs, set(link))
		}
	}
	for key, set := range map[string]func(netlink.Link, int) error{"queue": netlink.LinkSetTxQLen, "group": netlink.LinkSetGroup} {
		if n, err := strconv.Atoi(field(was, key)); err == nil && differs(key) {
			errs = append(errs, set(link, n))
		}
	}
	if differs("filtering") {
		errs = append(errs, netlink.BridgeSetVlanFiltering(link, field(was, "filtering") == "true"))
	}
	if hasField(was, "vlans") && field(was, "vlans") != field(is, "vlans") {
		// A port that another bridge had meanwhile has those of the bridge's default.
		_, err := ReadAll(func() ([]int, error) {
			links, err := netlink.LinkList()
			if err != nil {
				return nil, err
			}
			now, err := listVLANs(links)
			if err == nil {
				err = restoreVLANs(link, field(was, "vlans"), now[link.Attrs().Index])
			}
			return nil, err
		})
		errs = append(errs, err)
	}
	if differs("segments") {
		had, has := strings.Split(field(was, "segments"), "/"), strings.Split(field(is, "segments"), "/")
		for n, set := range []func(netlink.Link, int) error{netlink.LinkSetGSOMaxSize, netlink.LinkSetGROMaxSize, netlink.LinkSetGSOIPv4MaxSize, netlink.LinkSetGROIPv4MaxSize} {
			if size, err := strconv.Atoi(had[min(n, len(had)-1)]); err == nil && len(had) == len(has) && had[n] != has[n] {
				errs = append(errs, set(link, size))
			}
		}
	}
	return errors.Join(errs...)
}
