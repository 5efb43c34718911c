package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Kernel is the System of the network namespace the agent runs in.
type Kernel struct{}

// kindOf is what the kernel has of one kind.
type kindOf struct {
	look    func() (map[string]string, error)
	remove  func(names []string) error
	restore func(before map[string]string) error
}

var kinds = map[Kind]kindOf{
	Interfaces:  {lookLinks, removeLinks, restoreLinks},
	Qdiscs:      {lookQdiscs, removeQdiscs, restoreQdiscs},
	IPAddresses: {lookAddresses, removeAddresses, restoreAddresses},
	Rules:       {lookRules, removeRules, restoreRules},
	Routes:      {lookRoutes, removeRoutes, restoreRoutes},
	IPTables:    {lookIPTables, removeIPTables, restoreIPTables},
	NFTables:    {lookNFTables, removeNFTables, restoreNFTables},
	IPSets:      {lookIPSets, removeIPSets, nil},
	XFRM:        {lookXFRM, removeXFRM, nil},
	Neighbours:  {lookNeighbours, removeNeighbours, restoreNeighbours},
	Nexthops:    {lookNexthops, removeNexthops, restoreNexthops},
	Programs:    {lookPrograms, removePrograms, nil},
	IPVS:        {lookIPVS, removeIPVS, nil},
	FOU:         {lookFOU, removeFOU, nil},
}

// Entries implements System.
func (Kernel) Entries(kind Kind) (map[string]string, error) {
	found, err := twice(kinds[kind].look)
	if err != nil {
		return nil, fmt.Errorf("list each %s: %w", kind, err)
	}
	return found, nil
}

// RemoveEntries implements System.
func (Kernel) RemoveEntries(kind Kind, names []string) error { return kinds[kind].remove(names) }

// RestoreEntries implements System.
func (Kernel) RestoreEntries(kind Kind, before map[string]string) error {
	if kinds[kind].restore == nil {
		return fmt.Errorf("no %s can be restored", kind)
	}
	return kinds[kind].restore(before)
}

// marshalled returns entries with their JSON as fingerprints.
func marshalled[T any](all map[string]T, err error) (map[string]string, error) {
	if err != nil {
		return nil, err
	}
	found := make(map[string]string, len(all))
	for name, entry := range all {
		is, err := json.Marshal(entry)
		if err != nil {
			return nil, err
		}
		found[name] = string(is)
	}
	return found, nil
}

// unlessGone is the error of a removal, or nil when the thing was gone already.
func unlessGone(err error, what string) error {
	missing := netlink.LinkNotFoundError{}
	for _, gone := range []error{unix.ENOENT, unix.ESRCH, unix.ENODEV, unix.EADDRNOTAVAIL} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	if err == nil || errors.As(err, &missing) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// address is an entry of the kind IPAddresses.
type address struct {
	link           netlink.Link
	addr           netlink.Addr
	dynamic, lease bool
}

func (a address) String() string { return a.addr.IPNet.String() + " on " + a.link.Attrs().Name }

func listAddresses() ([]address, error) {
	links, names, err := listLinks()
	if err != nil {
		return nil, err
	}
	byIndex := map[int]netlink.Link{}
	for _, l := range links {
		byIndex[l.Attrs().Index] = l
	}
	addrs, err := ReadAll(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, err
	}
	gateways, err := defaultGateways(names)
	if err != nil {
		return nil, err
	}
	var all []address
	for _, a := range addrs {
		link := byIndex[a.LinkIndex]
		if link == nil || chosen(a) && a.IP.To4() == nil {
			continue
		}
		found := address{link: link, addr: a, dynamic: a.Flags&unix.IFA_F_PERMANENT == 0, lease: chosen(a)}
		for _, gw := range gateways {
			found.lease = found.lease || gw.dev == a.LinkIndex && a.Contains(gw.ip)
		}
		all = append(all, found)
	}
	return all, nil
}

// chosen says whether an address is one that a machine chooses for itself: those for one link alone with the length that their
// standards give them. Metadata services and caches of names have others.
func chosen(a netlink.Addr) bool {
	ones, bits := a.Mask.Size()
	return a.IP.IsLinkLocalUnicast() && (bits == 32 && ones == 16 || bits == 128 && ones == 64)
}

type gateway struct {
	dev int
	ip  net.IP
}

func defaultGateways(map[int]string) ([]gateway, error) {
	routes, err := ReadAll(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_ALL) })
	var all []gateway
	for _, r := range routes {
		if isDefault(r) && r.Gw != nil {
			all = append(all, gateway{r.LinkIndex, r.Gw})
		}
	}
	return all, err
}

func isDefault(r netlink.Route) bool {
	if r.Type != unix.RTN_UNICAST || r.Dst == nil {
		return r.Type == unix.RTN_UNICAST
	}
	ones, _ := r.Dst.Mask.Size()
	return ones == 0
}

func lookAddresses() (map[string]string, error) {
	all, err := listAddresses()
	found := map[string]string{}
	for _, a := range all {
		is, kept := "permanent", unix.IFA_F_NOPREFIXROUTE
		if !a.dynamic {
			kept |= unix.IFA_F_DEPRECATED // a router says so of its own
		}
		switch {
		case a.dynamic:
			is = dynamic
		case a.lease:
			is = "lease"
		}
		found[a.String()] = fmt.Sprintf("%s broadcast=%s scope=%d flags=%d label=%s", is, text4(a.addr.Broadcast), a.addr.Scope, a.addr.Flags&kept, a.addr.Label)
	}
	return found, err
}

// text4 is an address, or nothing.
func text4(ip net.IP) string {
	if ip == nil {
		return ""
	}
	return ip.String()
}

func removeAddresses(names []string) error {
	all, err := listAddresses()
	errs := []error{err}
	unwanted := set(names)
	for _, a := range all {
		if unwanted[a.String()] {
			errs = append(errs, unlessGone(netlink.AddrDel(a.link, &a.addr), "remove address "+a.String()))
		}
	}
	return errors.Join(errs...)
}

func restoreAddresses(before map[string]string) error {
	var errs []error
	for name, was := range before {
		text, dev, _ := strings.Cut(name, " on ")
		link, err := netlink.LinkByName(dev)
		if err == nil {
			var addr *netlink.Addr
			if addr, err = netlink.ParseAddr(text); err == nil {
				if addr.Broadcast = net.ParseIP(field(was, "broadcast")).To4(); addr.Broadcast == nil && addr.IP.To4() != nil {
					addr.Broadcast = net.IPv4zero // or it would have one
				}
				addr.Label = field(was, "label")
				addr.Scope, _ = strconv.Atoi(field(was, "scope")) // which an older agent did not record
				if addr.Flags, _ = strconv.Atoi(field(was, "flags")); addr.Flags&unix.IFA_F_DEPRECATED != 0 {
					addr.ValidLft = math.MaxUint32 // for ever, and preferred never
				}
				err = netlink.AddrReplace(link, addr)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("restore address %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func set(names []string) map[string]bool {
	all := make(map[string]bool, len(names))
	for _, n := range names {
		all[n] = true
	}
	return all
}

var families4and6 = []int{netlink.FAMILY_V4, netlink.FAMILY_V6}

// listRules returns the rules of both families by name. Equal ones are told apart by a number.
func listRules() (map[string]netlink.Rule, error) {
	found := map[string]netlink.Rule{}
	for _, family := range families4and6 {
		rules, err := ReadAll(func() ([]netlink.Rule, error) { return netlink.RuleList(family) })
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			r.Family = family
			name := ruleText(r)
			for n := 2; found[name].Family != 0; n++ {
				name = fmt.Sprintf("%s (%d)", ruleText(r), n)
			}
			found[name] = r
		}
	}
	return found, nil
}

func ruleText(r netlink.Rule) string {
	var b strings.Builder
	if r.Family == netlink.FAMILY_V6 {
		b.WriteString("IPv6 ")
	}
	fmt.Fprintf(&b, "%d:", max(r.Priority, 0))
	if r.Invert {
		b.WriteString(" not")
	}
	for _, part := range []struct {
		word string
		net  *net.IPNet
	}{{"from", r.Src}, {"to", r.Dst}} {
		if part.net != nil {
			b.WriteString(" " + part.word + " " + part.net.String())
		}
	}
	if r.IifName != "" {
		b.WriteString(" iif " + r.IifName)
	}
	if r.OifName != "" {
		b.WriteString(" oif " + r.OifName)
	}
	if r.Mark != 0 || r.Mask != nil {
		fmt.Fprintf(&b, " fwmark %#x", r.Mark)
		if r.Mask != nil {
			fmt.Fprintf(&b, "/%#x", *r.Mask)
		}
	}
	fmt.Fprintf(&b, " lookup %d", r.Table)
	return b.String()
}

func lookRules() (map[string]string, error) {
	return marshalled(listRules())
}

func removeRules(names []string) error {
	rules, err := listRules()
	errs := []error{err}
	for _, name := range names {
		if r, there := rules[name]; there {
			errs = append(errs, unlessGone(netlink.RuleDel(&r), "remove routing rule "+name))
		}
	}
	return errors.Join(errs...)
}

func restoreRules(before map[string]string) error {
	var errs []error
	for name, was := range before {
		r := *netlink.NewRule()
		err := json.Unmarshal([]byte(was), &r)
		if err == nil {
			err = netlink.RuleAdd(&r)
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			errs = append(errs, fmt.Errorf("restore routing rule %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func lookIPSets() (map[string]string, error) {
	sets, err := netlink.IpsetListAll()
	if absent(err) {
		return map[string]string{}, nil
	}
	found := map[string]string{}
	for _, s := range sets {
		found[s.SetName] = s.TypeName
	}
	return found, err
}

// absent says of an error that the kernel has nothing of a kind: its module is not loaded.
func absent(err error) bool {
	for _, none := range []error{unix.EOPNOTSUPP, unix.EPROTONOSUPPORT, unix.EINVAL, unix.ENOENT, unix.ENOPROTOOPT, unix.EAFNOSUPPORT} {
		if errors.Is(err, none) {
			return true
		}
	}
	return false
}

// removeIPSets takes those first that others do not name: a list of sets keeps its sets.
func removeIPSets(names []string) error {
	var errs []error
	for range 2 {
		errs = nil
		for _, name := range names {
			errs = append(errs, unlessGone(netlink.IpsetDestroy(name), "remove ipset "+name))
		}
	}
	return errors.Join(errs...)
}

// ownXFRM says so of a key that came when there were keys of the same two machines before: the operator's IPsec renews them.
func ownXFRM(name, before string, was map[string]string) bool {
	ends := func(name string) string {
		at := strings.LastIndex(name, " ")
		return name[:max(at, 0)]
	}
	if before != "" || !strings.HasPrefix(name, "state ") {
		return false
	}
	for other := range was {
		if ends(other) == ends(name) {
			return true
		}
	}
	return false
}

func lookXFRM() (map[string]string, error) {
	found := map[string]string{}
	states, err := netlink.XfrmStateList(netlink.FAMILY_ALL)
	if absent(err) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	for _, s := range states {
		found[stateText(s)] = "state"
	}
	policies, err := netlink.XfrmPolicyList(netlink.FAMILY_ALL)
	for _, p := range policies {
		found[policyText(p)] = "policy"
	}
	return found, err
}

func stateText(s netlink.XfrmState) string {
	return fmt.Sprintf("state %s to %s %s %#x", s.Src, s.Dst, s.Proto, s.Spi)
}

func policyText(p netlink.XfrmPolicy) string {
	return fmt.Sprintf("policy %s to %s %s priority %d", p.Src, p.Dst, p.Dir, p.Priority)
}

func removeXFRM(names []string) error {
	unwanted := set(names)
	states, errStates := ReadAll(func() ([]netlink.XfrmState, error) { return netlink.XfrmStateList(netlink.FAMILY_ALL) })
	policies, errPolicies := ReadAll(func() ([]netlink.XfrmPolicy, error) { return netlink.XfrmPolicyList(netlink.FAMILY_ALL) })
	errs := []error{errStates, errPolicies}
	for _, p := range policies {
		if unwanted[policyText(p)] {
			errs = append(errs, unlessGone(netlink.XfrmPolicyDel(&p), "remove IPsec "+policyText(p)))
		}
	}
	for _, s := range states {
		if unwanted[stateText(s)] {
			errs = append(errs, unlessGone(netlink.XfrmStateDel(&s), "remove IPsec "+stateText(s)))
		}
	}
	return errors.Join(errs...)
}
