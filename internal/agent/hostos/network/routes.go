package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// route is what is recorded of a route: enough to make it again. Interfaces go by name, since
// their numbers change with each boot.
type route struct {
	Dst      string `json:"dst,omitempty"`
	Family   int    `json:"family"`
	Gw       net.IP `json:"gw,omitempty"`
	Src      net.IP `json:"src,omitempty"`
	Dev      string `json:"dev,omitempty"`
	Table    int    `json:"table"`
	Type     int    `json:"type"`
	Protocol int    `json:"proto"`
	Scope    uint8  `json:"scope,omitempty"`
	Priority int    `json:"metric,omitempty"`
	Tos      int    `json:"tos,omitempty"`
	MTU      int    `json:"mtu,omitempty"`
	OnLink   bool   `json:"onlink,omitempty"`
	Hops     []hop  `json:"hops,omitempty"`
	Encap    string `json:"encap,omitempty"`
	// Metrics are those of metricsOf; nil when none is set. An older agent did not record them.
	Metrics []int `json:"metrics"`
	// Own is true for a route that the kernel, a router or a lease made: see ownRoute.
	Own bool `json:"own,omitempty"`
}

type hop struct {
	Gw     net.IP `json:"gw,omitempty"`
	Dev    string `json:"dev,omitempty"`
	Weight int    `json:"weight,omitempty"`
}

func newRoute(r netlink.Route, names map[int]string) route {
	n := route{
		Family: r.Family, Gw: r.Gw, Src: r.Src, Dev: names[r.LinkIndex], Table: r.Table, Type: r.Type, Protocol: int(r.Protocol),
		Scope: uint8(r.Scope), Priority: r.Priority, Tos: r.Tos, MTU: r.MTU, OnLink: r.Flags&int(netlink.FLAG_ONLINK) != 0, Own: ownRoute(r),
	}
	for _, m := range metricsOf(&r) {
		n.Metrics = append(n.Metrics, *m)
	}
	if !slices.ContainsFunc(n.Metrics, func(m int) bool { return m != 0 }) {
		n.Metrics = nil
	}
	if r.Dst != nil {
		n.Dst = r.Dst.String()
	}
	if r.Encap != nil {
		n.Encap = r.Encap.String()
	}
	for _, h := range r.MultiPath {
		n.Hops = append(n.Hops, hop{Gw: h.Gw, Dev: names[h.LinkIndex], Weight: h.Hops})
	}
	return n
}

// routeMetrics is in the fingerprint of each route that has a record of its metrics.
const routeMetrics = `"metrics":`

// metricsOf are what a route says to TCP, in the order in which they are recorded.
func metricsOf(r *netlink.Route) []*int {
	return []*int{
		&r.AdvMSS, &r.Window, &r.InitCwnd, &r.InitRwnd, &r.Hoplimit, &r.RtoMin, &r.QuickACK, &r.Features, &r.Cwnd, &r.Ssthresh, &r.Reordering, &r.Rtt, &r.RttVar,
		&r.FastOpenNoCookie,
	}
}

// second says of a default route that came whether it is one more beside that of the same interface from before: a lease, or a
// router, would have replaced that.
func second(now string, was, is map[string]string) bool {
	r := route{}
	if wayOut(now) == "" || json.Unmarshal([]byte(now), &r) != nil || r.Protocol == unix.RTPROT_DHCP {
		return false
	}
	for name, before := range was {
		other := route{}
		if is[name] == before && wayOut(before) == wayOut(now) && json.Unmarshal([]byte(before), &other) == nil && other.Dev == r.Dev {
			return true
		}
	}
	return false
}

// ownRoute says whether the machine itself made a route: the kernel for an address, a router by its
// advertisements or redirects, or a DHCP client for a lease; and default routes of the main table,
// which only the machine's own configuration makes. Cilium marks its routes as the kernel's, but
// those of the kernel have no gateway and are in the tables main and local.
func ownRoute(r netlink.Route) bool {
	usual := r.Table == unix.RT_TABLE_MAIN || r.Table == unix.RT_TABLE_LOCAL
	switch int(r.Protocol) {
	case unix.RTPROT_REDIRECT, unix.RTPROT_RA, unix.RTPROT_DHCP:
		return true
	case unix.RTPROT_KERNEL:
		return usual && r.Gw == nil && len(r.MultiPath) == 0
	}
	return r.Table == unix.RT_TABLE_MAIN && isDefault(r)
}

// wayOut is the family of a default route of the main table, but for one of an IPv6 router, which announces it
// again; empty for other routes.
func wayOut(fingerprint string) string {
	r := route{}
	if json.Unmarshal([]byte(fingerprint), &r) != nil || !r.Own || r.Table != unix.RT_TABLE_MAIN || r.Protocol == unix.RTPROT_RA {
		return ""
	}
	switch {
	case r.Dst == "0.0.0.0/0" || r.Dst == "" && r.Family == unix.AF_INET:
		return "IPv4"
	case r.Dst == "::/0" || r.Dst == "" && r.Family == unix.AF_INET6:
		return "IPv6"
	default:
		return ""
	}
}

var routeTypes = map[int]string{
	unix.RTN_LOCAL: "local", unix.RTN_BROADCAST: "broadcast", unix.RTN_ANYCAST: "anycast", unix.RTN_MULTICAST: "multicast",
	unix.RTN_BLACKHOLE: "blackhole", unix.RTN_UNREACHABLE: "unreachable", unix.RTN_PROHIBIT: "prohibit", unix.RTN_THROW: "throw", unix.RTN_NAT: "nat",
}

// defaultMetric is that of IPv6 where none is given.
const defaultMetric = 1024

// String is the name of the route, much as `ip route` prints it.
func (r route) String() string {
	var b strings.Builder
	if is := routeTypes[r.Type]; is != "" {
		b.WriteString(is + " ")
	}
	dst := r.Dst
	if dst == "" || dst == "0.0.0.0/0" || dst == "::/0" {
		dst = "default"
		if r.Family == unix.AF_INET6 {
			dst = "IPv6 default"
		}
	}
	b.WriteString(dst)
	if r.Gw != nil {
		b.WriteString(" via " + r.Gw.String())
	}
	if r.Dev != "" {
		b.WriteString(" dev " + r.Dev)
	}
	for _, h := range r.Hops {
		fmt.Fprintf(&b, " nexthop %s dev %s", h.Gw, h.Dev)
	}
	if r.Table != unix.RT_TABLE_MAIN {
		fmt.Fprintf(&b, " table %d", r.Table)
	}
	if r.Tos != 0 {
		fmt.Fprintf(&b, " tos %#x", r.Tos)
	}
	if r.Priority != 0 && (r.Priority != defaultMetric || r.Family != unix.AF_INET6) {
		fmt.Fprintf(&b, " metric %d", r.Priority)
	}
	return b.String()
}

// listRoutes returns the routes of all tables by name. The kernel keeps no two of a name.
func listRoutes() (map[string]netlink.Route, map[string]route, error) {
	_, names, err := listLinks()
	if err != nil {
		return nil, nil, err
	}
	all, err := ReadAll(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	})
	handles, found := make(map[string]netlink.Route, len(all)), make(map[string]route, len(all))
	for _, r := range all {
		n := newRoute(r, names)
		handles[n.String()], found[n.String()] = r, n
	}
	return handles, found, err
}

func lookRoutes() (map[string]string, error) {
	_, all, err := listRoutes()
	return marshalled(all, err)
}

func removeRoutes(names []string) error {
	handles, _, err := listRoutes()
	errs := []error{err}
	for _, name := range names {
		if r, there := handles[name]; there {
			errs = append(errs, unlessGone(netlink.RouteDel(&r), "remove route "+name))
		}
	}
	return errors.Join(errs...)
}

func restoreRoutes(before map[string]string) error {
	var errs []error
	for name, was := range before {
		if err := restoreRoute(was); err != nil && !errors.Is(err, unix.EEXIST) {
			errs = append(errs, fmt.Errorf("restore route %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func restoreRoute(was string) error {
	n := route{}
	if err := json.Unmarshal([]byte(was), &n); err != nil {
		return err
	}
	if n.Encap != "" {
		return errors.New("it has an encapsulation")
	}
	index := func(dev string) (int, error) {
		if dev == "" {
			return 0, nil
		}
		link, err := netlink.LinkByName(dev)
		if err != nil {
			return 0, err
		}
		return link.Attrs().Index, nil
	}
	r := netlink.Route{
		Family: n.Family, Gw: n.Gw, Src: n.Src, Table: n.Table, Type: n.Type, Protocol: netlink.RouteProtocol(n.Protocol), Scope: netlink.Scope(n.Scope),
		Priority: n.Priority, Tos: n.Tos, MTU: n.MTU,
	}
	if metrics := metricsOf(&r); len(n.Metrics) == len(metrics) {
		for i, m := range n.Metrics {
			*metrics[i] = m
		}
	}
	if n.OnLink {
		r.Flags = int(netlink.FLAG_ONLINK)
	}
	var err error
	if n.Dst != "" {
		if _, r.Dst, err = net.ParseCIDR(n.Dst); err != nil {
			return err
		}
	}
	if r.LinkIndex, err = index(n.Dev); err != nil {
		return err
	}
	for _, h := range n.Hops {
		dev, err := index(h.Dev)
		if err != nil {
			return err
		}
		r.MultiPath = append(r.MultiPath, &netlink.NexthopInfo{LinkIndex: dev, Gw: h.Gw, Hops: h.Weight})
	}
	return netlink.RouteReplace(&r)
}
