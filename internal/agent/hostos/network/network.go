package network

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
)

// Link is a network interface.
type Link struct {
	Name string
	// Kind as the kernel names it: veth, bridge, vxlan; "device" for hardware.
	Kind string
	// Master is the bridge the interface is a port of, if any.
	Master string
}

// Route is a route of the main table.
type Route struct {
	// Text is a canonical form: "10.244.1.0/24 via 10.88.0.12 dev eth0".
	Text string
	// Removable is false for routes of the kernel, of DHCP and of router
	// advertisements, and for default routes.
	Removable bool
	handle    any
}

// System is what this package needs of the kernel.
type System interface {
	Links() ([]Link, error)
	Routes() ([]Route, error)
	// Tables lists the nftables tables as "family name".
	Tables() ([]string, error)
	// The removals are no error when the thing is gone already.
	RemoveLink(name string) error
	RemoveRoute(Route) error
	RemoveTable(table string) error
}

// linkPatterns are the interface names of the usual network plugins and of
// kube-proxy.
var linkPatterns = []string{
	"cni[0-9]*", "flannel*", "kube-*", "nodelocaldns", "cilium_*", "cilium-*", "lxc[0-9a-f]*", "cali[0-9a-f]*",
	"*.calico", "wireguard.cali*", "antrea-*", "genev_sys_*", "weave", "vethwe-*", "ovn-*", "ovn0",
}

// tablePatterns are their nftables tables, and those of the CNI plugins.
var tablePatterns = []string{"kube-*", "kubelet*", "flannel*", "cni_*", "cni-*", "calico*", "cilium*", "antrea-*"}

// Capture records the interfaces, routes and tables of the host.
func Capture(s System, into *journal.Baseline) error {
	links, errLinks := s.Links()
	routes, errRoutes := s.Routes()
	tables, errTables := s.Tables()
	if err := errors.Join(errLinks, errRoutes, errTables); err != nil {
		return err
	}
	into.Links, into.Routes, into.NFTables = nil, nil, tables
	for _, l := range links {
		into.Links = append(into.Links, l.Name)
	}
	for _, r := range routes {
		into.Routes = append(into.Routes, r.Text)
	}
	return nil
}

// CaptureNode records them for a host that is a node already: all but the interfaces
// and tables that are Kubernetes' by their names, and the pod ends on such bridges.
// What no name tells counts as the host's own.
func CaptureNode(s System, into *journal.Baseline) error {
	if err := Capture(s, into); err != nil {
		return err
	}
	links, err := s.Links()
	if err != nil {
		return err
	}
	for _, l := range links {
		if l.Kind != "device" && (matches(linkPatterns, l.Name) || (l.Kind == "veth" && matches(linkPatterns, l.Master))) {
			into.Links = slices.DeleteFunc(into.Links, func(name string) bool { return name == l.Name })
		}
	}
	into.NFTables = slices.DeleteFunc(into.NFTables, func(table string) bool {
		_, name, _ := strings.Cut(table, " ")
		return matches(tablePatterns, name)
	})
	return nil
}

// Leftover is one thing that must go.
type Leftover struct {
	// Name describes it, for example "network interface cni0".
	Name   string
	remove func() error
}

// Remove removes it from the kernel.
func (l Leftover) Remove() error {
	if err := l.remove(); err != nil {
		return fmt.Errorf("remove %s: %w", l.Name, err)
	}
	return nil
}

// Leftovers lists what Kubernetes left, in the order of removal. Without a
// baseline only interfaces and tables of known names count.
func Leftovers(s System, baseline *journal.Baseline) ([]Leftover, error) {
	links, errLinks := s.Links()
	routes, errRoutes := s.Routes()
	tables, errTables := s.Tables()
	if err := errors.Join(errLinks, errRoutes, errTables); err != nil {
		return nil, err
	}
	found := leftLinks(s, links, baseline)
	found = append(found, leftRoutes(s, routes, baseline)...)
	return append(found, leftTables(s, tables, baseline)...), nil
}

// leftLinks takes interfaces by name, and those pod ends that are on no bridge
// of the host's own (the ptp plugin makes them with random names).
func leftLinks(s System, links []Link, baseline *journal.Baseline) []Leftover {
	var found []Leftover
	for _, l := range links {
		if baseline != nil && slices.Contains(baseline.Links, l.Name) || l.Kind == "device" {
			continue
		}
		pod := baseline != nil && l.Kind == "veth" && !slices.Contains(baseline.Links, l.Master) &&
			(l.Master == "" || matches(linkPatterns, l.Master))
		if pod || matches(linkPatterns, l.Name) {
			found = append(found, Leftover{"network interface " + l.Name, func() error { return s.RemoveLink(l.Name) }})
		}
	}
	return found
}

func leftRoutes(s System, routes []Route, baseline *journal.Baseline) []Leftover {
	var found []Leftover
	for _, r := range routes {
		if baseline != nil && r.Removable && !slices.Contains(baseline.Routes, r.Text) {
			found = append(found, Leftover{"route " + r.Text, func() error { return s.RemoveRoute(r) }})
		}
	}
	return found
}

func leftTables(s System, tables []string, baseline *journal.Baseline) []Leftover {
	var found []Leftover
	for _, t := range tables {
		_, name, _ := strings.Cut(t, " ")
		if (baseline == nil || !slices.Contains(baseline.NFTables, t)) && matches(tablePatterns, name) {
			found = append(found, Leftover{"nftables table " + t, func() error { return s.RemoveTable(t) }})
		}
	}
	return found
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}
