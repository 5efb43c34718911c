package network

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Kernel is the System of the network namespace the agent runs in.
type Kernel struct{}

// Links implements System.
func (Kernel) Links() ([]Link, error) {
	links, err := ReadAll(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	all := make([]Link, 0, len(links))
	for _, l := range links {
		all = append(all, Link{Name: l.Attrs().Name, Kind: l.Type(), Master: names[l.Attrs().MasterIndex]})
	}
	return all, nil
}

// RemoveLink implements System.
func (Kernel) RemoveLink(name string) error {
	link, err := netlink.LinkByName(name)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}

// Routes implements System.
func (Kernel) Routes() ([]Route, error) {
	routes, err := ReadAll(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	all := make([]Route, 0, len(routes))
	for _, r := range routes {
		all = append(all, Route{Text: routeText(r), Removable: removable(r), handle: r})
	}
	return all, nil
}

func routeText(r netlink.Route) string {
	var b strings.Builder
	b.WriteString("default")
	if r.Dst != nil {
		b.Reset()
		b.WriteString(r.Dst.String())
	}
	if r.Gw != nil {
		b.WriteString(" via " + r.Gw.String())
	}
	if link, err := netlink.LinkByIndex(r.LinkIndex); err == nil {
		b.WriteString(" dev " + link.Attrs().Name)
	}
	return b.String()
}

// removable takes the routes that programs add (boot, static and the routing
// daemons of network plugins).
func removable(r netlink.Route) bool {
	if r.Dst == nil || r.Dst.IP.IsUnspecified() || r.Type != unix.RTN_UNICAST {
		return false
	}
	switch r.Protocol {
	case unix.RTPROT_BOOT, unix.RTPROT_STATIC, unix.RTPROT_BIRD, unix.RTPROT_BGP:
		return true
	}
	return false
}

// RemoveRoute implements System.
func (Kernel) RemoveRoute(r Route) error {
	route, ok := r.handle.(netlink.Route)
	if !ok {
		return fmt.Errorf("a route of another system")
	}
	if err := netlink.RouteDel(&route); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// families by their numbers, as nft prints them.
var families = map[nftables.TableFamily]string{
	nftables.TableFamilyINet: "inet", nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6",
	nftables.TableFamilyARP: "arp", nftables.TableFamilyNetdev: "netdev", nftables.TableFamilyBridge: "bridge",
}

// Tables implements System. A kernel without nftables has none.
func (Kernel) Tables() ([]string, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	tables, err := c.ListTables()
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list nftables tables: %w", err)
	}
	all := make([]string, 0, len(tables))
	for _, t := range tables {
		all = append(all, families[t.Family]+" "+t.Name)
	}
	return all, nil
}

// RemoveTable implements System.
func (Kernel) RemoveTable(table string) error {
	family, name, _ := strings.Cut(table, " ")
	c, err := nftables.New()
	if err != nil {
		return err
	}
	for number, text := range families {
		if text == family {
			c.DelTable(&nftables.Table{Name: name, Family: number})
		}
	}
	if err := c.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
