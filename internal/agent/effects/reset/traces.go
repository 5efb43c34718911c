package reset

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
)

// Kinds of the traces that are recorded, as clean.ignore of the agent's configuration names them.
const (
	kindFile        = "file"
	kindMount       = "mount"
	kindCgroup      = "cgroup"
	kindSysctl      = "sysctl"
	kindBinfmt      = "binfmt"
	kindHostname    = "hostname"
	kindSwap        = "swap"
	kindDevice      = "device"
	kindDeviceFile  = "device-file"
	kindModule      = "module"
	kindListener    = "listener"
	kindImage       = "image"
	kindInterface   = "interface"
	kindQdisc       = "qdisc"
	kindAddress     = "address"
	kindRule        = "rule"
	kindRoute       = "route"
	kindIPTables    = "iptables"
	kindNFTables    = "nftables"
	kindIPSet       = "ipset"
	kindXFRM        = "xfrm"
	kindNeighbour   = "neighbour"
	kindNexthop     = "nexthop"
	kindBPF         = "bpf"
	kindIPVS        = "ipvs"
	kindEnvironment = "environment"
	kindKexec       = "kexec"
	kindFOU         = "fou"
	kindService     = "service"
	kindHold        = "hold"
)

// networkKinds are the kinds of the kernel's network.
var networkKinds = []struct {
	kind string
	of   network.Kind
	// restores: entries that changed or went can be restored; gone: one that went is drift.
	restores, gone bool
}{
	{kindInterface, network.Interfaces, true, true},
	{kindQdisc, network.Qdiscs, true, true},
	{kindAddress, network.IPAddresses, true, true},
	{kindNeighbour, network.Neighbours, true, true},
	{kindRule, network.Rules, true, true},
	{kindRoute, network.Routes, true, true},
	{kindNexthop, network.Nexthops, true, true},
	{kindIPTables, network.IPTables, true, true},
	{kindNFTables, network.NFTables, true, true},
	{kindIPSet, network.IPSets, false, true},
	{kindXFRM, network.XFRM, false, false},
	{kindBPF, network.Programs, false, true},
	{kindIPVS, network.IPVS, false, true},
	{kindFOU, network.FOU, false, true},
}

// traces is the table, in the order in which a reset takes it: what runs before what it uses, and
// what is mounted before what it is mounted on.
func (c Cleaner) traces(ctx context.Context, state journal.State, rec *record) []trace {
	all := []trace{
		{kind: "process", word: "process", look: c.processes, always: true, say: func(ch change) string { return "process " + ch.now }, remove: c.kill},
		{kind: "port", word: "listener on port", look: func(context.Context) (entries, error) { return c.ports(state) }, always: true},
		{kind: kindListener, word: "listener", look: func(context.Context) (entries, error) { return c.listeners() }, own: c.ownListener},
		{kind: "container", word: "container", look: c.containersOfRuntime, always: true, remove: c.removeContainers},
		c.mountTrace(),
		{kind: "virtual IP", word: "virtual IP", look: func(context.Context) (entries, error) { return c.heldVIP(state) }, always: true},
	}
	for _, k := range networkKinds {
		t := trace{
			kind: k.kind, word: string(k.of), gone: k.gone,
			look: func(context.Context) (entries, error) { return c.Network.Entries(k.of) },
			node: func(name, now string) bool { return network.OfNode(k.of, name, now) },
			adopted: func(name, now string, networks []netip.Prefix) bool {
				return network.OfCluster(k.of, name, now, networks)
			},
			own: func(ch change, before, now entries) bool {
				return network.Own(k.of, ch.name, ch.before, ch.now, before, now) || k.of == network.IPAddresses && c.movedAway(ch)
			},
			device: func(name, now string) string { return network.Device(k.of, name, now) },
			inside: func(name string, came func(string) bool) bool { return network.Inside(k.of, name, came) },
			remove: func(_ context.Context, names []string) error { return c.Network.RemoveEntries(k.of, names) },
		}
		if k.restores {
			t.restore = func(_ context.Context, before entries) error { return c.Network.RestoreEntries(k.of, before) }
		}
		all = append(all, t)
	}
	all = append(all,
		trace{
			kind: kindCgroup, word: "cgroup", look: func(context.Context) (entries, error) { return c.cgroups() },
			node: func(name, _ string) bool { return ofPods(name) }, remove: c.removeCgroups,
		},
		trace{
			kind: kindSysctl, word: "setting", look: func(context.Context) (entries, error) { return c.settings() },
			own: ownSetting, restore: func(_ context.Context, before entries) error { return c.setSettings(before) },
		},
		trace{
			kind: kindBinfmt, word: "format of programs", look: func(context.Context) (entries, error) { return c.binaryFormats() }, gone: true,
			remove: c.removeBinaryFormats,
		},
		trace{kind: kindHostname, word: "name", look: func(context.Context) (entries, error) { return c.runningName() }, say: saysName},
		trace{
			kind: kindSwap, word: "swap space", look: func(context.Context) (entries, error) { return c.swaps() }, gone: true,
			remove: func(ctx context.Context, names []string) error { return c.swap(ctx, "swapoff", names) },
			restore: func(ctx context.Context, before entries) error {
				return c.swap(ctx, "swapon", slices.Sorted(keys(before)))
			},
		},
		c.deviceTrace(),
		c.deviceFileTrace(),
		c.environmentTrace(),
		c.kexecTrace(),
		trace{
			kind: kindModule, word: "kernel module", look: func(context.Context) (entries, error) { return c.modules() },
			own: ownModule, remove: c.removeModules,
		},
		c.ownFiles(rec),
		c.writtenTrace(state),
		c.fileTrace(ctx, state, rec),
		c.serviceTrace(),
		c.heldTrace(),
		trace{
			kind: "program", word: "choice of a version of", look: func(context.Context) (entries, error) { return c.changedLinks(state) }, always: true,
			remove: func(context.Context, []string) error { return c.restoreLinks(state) },
		},
	)
	if state.FullReset() && state.Baseline != nil {
		all = append(all, c.imageTrace(), trace{
			kind: "log", word: "file", look: func(context.Context) (entries, error) { return c.firstFiles(logDirectories) }, always: true,
			remove: func(context.Context, []string) error { return c.empty(logDirectories) },
		})
	}
	return all
}

// movedAway says whether an address that went is with another machine now, as those are that a program of the operator's moves from one to
// another, such as keepalived. With it restored, two machines would have it.
func (c Cleaner) movedAway(ch change) bool {
	address, link, _ := strings.Cut(ch.name, " on ")
	prefix, err := netip.ParsePrefix(address)
	if ch.now != "" || err != nil {
		return false
	}
	mac, err := c.Probe(link, prefix.Addr())
	if mac != "" {
		c.Log.Info("an address that was there before is with another machine", "address", address, "interface", link, "mac", mac)
	}
	return err == nil && mac != ""
}

func (c Cleaner) mountTrace() trace {
	return trace{
		kind: kindMount, word: "mount", look: func(context.Context) (entries, error) { return c.mounts() },
		node: nodeMount, own: ownMount, gone: true, mine: removableMount,
		adopted: func(name, _ string, _ []netip.Prefix) bool { return ofPluginAlone(mountPoint(name)) },
		remove:  func(_ context.Context, names []string) error { return c.unmount(names) }, restore: func(_ context.Context, before entries) error { return c.remount(before) },
	}
}

// Kinds are the kinds of all traces.
func Kinds(ctx context.Context) (kinds []string) {
	full := journal.State{Baseline: &journal.Baseline{}, Operation: &journal.Operation{Phase: infrav1.HostDesiredReset, ResetPolicy: infrav1.ResetPolicyFull}}
	for _, t := range (Cleaner{}).traces(ctx, full, nil) {
		kinds = append(kinds, t.kind)
	}
	return kinds
}

// RecordedKinds are the kinds that clean.ignore may name.
func RecordedKinds(ctx context.Context) []string {
	kinds := []string{kindImage}
	for _, t := range (Cleaner{}).traces(ctx, journal.State{}, nil) {
		if !t.always {
			kinds = append(kinds, t.kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}
