package network

import (
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
)

// Kind is one kind of state that the kernel keeps for a network namespace. Its text names one
// entry of it in messages.
type Kind string

// The kinds, in the order in which a reset takes them.
const (
	Interfaces  Kind = "network interface"
	Qdiscs      Kind = "queueing discipline"
	IPAddresses Kind = "address"
	Rules       Kind = "routing rule"
	Routes      Kind = "route"
	IPTables    Kind = "iptables table"
	NFTables    Kind = "nftables"
	IPSets      Kind = "ipset"
	XFRM        Kind = "IPsec"
	Neighbours  Kind = "neighbour"
	Nexthops    Kind = "nexthop"
	Programs    Kind = "eBPF program"
	IPVS        Kind = "IPVS service"
	FOU         Kind = "port of tunnels over UDP"
)

// Kinds are all kinds.
var Kinds = []Kind{Interfaces, Qdiscs, IPAddresses, Neighbours, Rules, Routes, Nexthops, IPTables, NFTables, IPSets, XFRM, Programs, IPVS, FOU}

// System is the network state of one namespace. Kernel implements it.
type System interface {
	// Entries lists all entries of a kind by name. The value is a fingerprint: two entries of a name
	// are the same if and only if their fingerprints are equal. It is never empty. A kernel without
	// a kind has no entries of it.
	Entries(kind Kind) (map[string]string, error)
	// RemoveEntries removes entries. One that is gone already is no error.
	RemoveEntries(kind Kind, names []string) error
	// RestoreEntries gives entries, by name, the fingerprint that Entries had for them. An error says which
	// it cannot restore.
	RestoreEntries(kind Kind, before map[string]string) error
}

// Link is a network interface, as tests describe it.
type Link struct {
	Name string
	// Kind as the kernel names it: veth, bridge, vxlan; "device" for hardware.
	Kind string
	// Master is the bridge the interface is a port of, if any.
	Master string
	// MTU in bytes.
	MTU int
	// XDP is true when a program is attached.
	XDP bool
	// Down is true when somebody switched it off.
	Down bool
	// Promiscuous is true when somebody has it take the packets of others, too.
	Promiscuous bool
	// MAC is the hardware address of hardware; that of others may change by itself.
	MAC string
	// AllMulticast is true when somebody switched on the reception of all multicast packets.
	AllMulticast bool
	// FiltersVLANs is true of a bridge that tells VLANs apart; VLANs are those of a bridge, or of a port: see listVLANs.
	FiltersVLANs bool
	VLANs        string
	// Segments are the largest packets, in bytes, that the kernel makes of several: by GSO and GRO, and of IPv4.
	Segments string
	// NoARP and NoMulticast are true when somebody switched off that it finds out addresses, and that it sends to groups.
	NoARP, NoMulticast bool
	// Queue is how many packets it lets wait, Group the number of the group that it is in.
	Queue, Group int
	// VFs is how many virtual functions of hardware are switched on.
	VFs int
}

// Fingerprint is what Entries has for the link.
func (l Link) Fingerprint() string {
	return fmt.Sprintf("kind=%s master=%s mtu=%d xdp=%t down=%t promiscuous=%t mac=%s allmulti=%t filtering=%t vlans=%s segments=%s vfs=%d noarp=%t nomulticast=%t queue=%d group=%d",
		l.Kind, l.Master, l.MTU, l.XDP, l.Down, l.Promiscuous, l.MAC, l.AllMulticast, l.FiltersVLANs, l.VLANs, l.Segments, l.VFs, l.NoARP, l.NoMulticast, l.Queue, l.Group)
}

// linkPatterns are the interface names of the usual network plugins and of
// kube-proxy.
var linkPatterns = []string{
	"cni[0-9]*", "flannel*", "kube-*", "nodelocaldns", "cilium_*", "cilium-*", "lxc[0-9a-f]*", "cali[0-9a-f]*",
	"*.calico", "wireguard.cali*", "antrea-*", "genev_sys_*", "weave", "vethwe-*", "ovn-*", "ovn0",
}

// tablePatterns are their nftables tables, and those of the CNI plugins.
var tablePatterns = []string{"kube-*", "kubelet*", "flannel*", "cni_*", "cni-*", "calico*", "cilium*", "antrea-*"}

// chainPrefixes are the chains of kube-proxy, the kubelet and the network plugins in tables that
// they share with the host.
var chainPrefixes = []string{"KUBE-", "CNI-", "FLANNEL-", "cali-", "CILIUM_", "ANTREA-", "WEAVE-", "OLD_CILIUM_"}

// setPrefixes are their ipsets.
var setPrefixes = []string{"KUBE-", "cali40", "cali60", "kube-router-", "inet6:kube-router-", "ANTREA-", "weave-"}

// NamesChain says whether a text names a chain of Kubernetes.
func NamesChain(text string) bool {
	for line := range strings.Lines(text) {
		for _, field := range strings.Fields(line) {
			if hasPrefix(chainPrefixes, strings.TrimPrefix(field, ":")) {
				return true
			}
		}
	}
	return false
}

// OfNode says whether an entry is Kubernetes' by its name: what counts on a host of which
// nobody knows what was there before. master finds the fingerprint of another link.
func OfNode(kind Kind, name, fingerprint string) bool {
	switch kind {
	case Interfaces:
		return field(fingerprint, "kind") != "device" && (matches(linkPatterns, name) ||
			field(fingerprint, "kind") == "veth" && matches(linkPatterns, field(fingerprint, "master")))
	case NFTables:
		words := strings.Fields(name) // table FAMILY NAME, or chain FAMILY TABLE NAME, …
		return len(words) > 2 && matches(tablePatterns, words[2]) ||
			len(words) > 3 && (words[0] == "chain" || words[0] == "rule") && hasPrefix(chainPrefixes, words[3]) || strings.HasSuffix(fingerprint, nodeMark)
	case IPTables:
		// Only its program can take single chains out of a table, which the reset does first.
		return strings.HasSuffix(fingerprint, nodeMark)
	case IPSets:
		return hasPrefix(setPrefixes, name)
	default:
		return false
	}
}

// Device is the link that an entry is on, and that it goes with; empty for none.
func Device(kind Kind, name, fingerprint string) string {
	switch kind {
	case IPAddresses, Neighbours:
		_, link, _ := strings.Cut(name, " on ")
		return link
	case Qdiscs:
		_, link, _ := strings.Cut(name, " of ")
		return link
	case Routes, Nexthops:
		var is struct {
			Dev string `json:"dev"`
		}
		if err := json.Unmarshal([]byte(fingerprint), &is); err != nil {
			return ""
		}
		return is.Dev
	case Interfaces, Rules, IPTables, NFTables, IPSets, XFRM, Programs, IPVS, FOU:
	}
	return ""
}

// nodeMark ends the fingerprint of a rule, and of an iptables table, that names a chain of Kubernetes.
const nodeMark = " node"

// fallbackLinks are made by the kernel itself when a module of tunnels is loaded, in each
// namespace, and nobody can remove them. What is configured on them goes.
var fallbackLinks = []string{
	"tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip6tnl0", "ip6gre0", "ip_vti0", "ip6_vti0", "ifb0", "ifb1", "teql0", "bond0", "dummy0",
}

// Own says whether a change of an entry is the machine's own: no node made it, and it is neither
// removed nor named. before or now is empty for an entry that came or went; was and is are all entries of
// the kind at the baseline, and now.
func Own(kind Kind, name, before, now string, was, is map[string]string) bool {
	switch kind {
	case Interfaces:
		return ownLink(name, before, now, was)
	case IPAddresses:
		return ownAddress(name, before, now, was, is)
	case Routes:
		return ownsRoute(before, now, was, is)
	case Neighbours:
		// The program that keeps it alive has found another one, or ends.
		return before != "" && (strings.Contains(before, `"managed":true`) || strings.Contains(before, fmt.Sprintf(`"flags":%d`, extLearned)))
	case Qdiscs:
		return ownQdisc(name, before, now, was, is)
	case NFTables:
		return ownNFTables(name, before, now, was, is)
	case XFRM:
		return ownXFRM(name, before, was)
	case Rules, IPTables, IPSets, Nexthops, Programs, IPVS, FOU:
	}
	return false
}

// ownsRoute says so of a route.
func ownsRoute(before, now string, was, is map[string]string) bool {
	if before != "" && !strings.Contains(before, routeMetrics) { // which an older agent did not record
		then, after := route{}, route{}
		if json.Unmarshal([]byte(before), &then) == nil && json.Unmarshal([]byte(now), &after) == nil {
			after.Metrics = nil
			if reflect.DeepEqual(then, after) {
				return true
			}
		}
	}
	if before == "" && second(now, was, is) {
		return false
	}
	if now == "" && wayOut(before) != "" {
		for _, r := range is {
			if wayOut(r) == wayOut(before) {
				return true
			}
		}
		return false // nothing leads out any more
	}
	return strings.Contains(before+now, `"own":true`)
}

// ownQdisc says so of a queueing discipline.
func ownQdisc(name, before, now string, was, is map[string]string) bool {
	_, link, _ := strings.Cut(name, " of ")
	_, there := is["root of "+link]
	_, known := was["root of "+link]
	// It is of an interface that came, or went, which is compared itself; an older agent did not record queues.
	return before == "" && !known || now == "" && !there || before == "mq " && strings.HasPrefix(now, "mq ") || sameFilters(before, now)
}

// ownAddress says so of an address: a lease was renewed, or another one took its place; or the kernel made it.
func ownAddress(name, before, now string, was, is map[string]string) bool {
	switch {
	case now == "" && !strings.HasPrefix(before, dynamic) && !another(name, is):
		return false // no lease took its place: somebody moved it to an interface that goes
	case before != "" && now != "":
		// Whether it counts as a lease follows from the default route. One that the kernel is to remove was made so.
		return strings.HasPrefix(before, dynamic) || !strings.HasPrefix(now, dynamic) && sameWords(before, now)
	case before == "" && strings.HasPrefix(now, "lease") && !strings.HasPrefix(name, "169.254."):
		for former := range was {
			if _, stays := is[former]; stays && alike(former, name) {
				return false // it is there besides
			}
		}
	}
	return strings.Contains(before+now, dynamic) || strings.Contains(before+now, "lease")
}

// dynamic is the first word of an address that the kernel removes after a time.
const dynamic = "dynamic"

// sameWords says whether what an entry was is what it is, by the words KEY=VALUE, of which an older agent may have recorded fewer.
func sameWords(before, now string) bool {
	for word := range strings.FieldsSeq(before) {
		if key, was, ok := strings.Cut(word, "="); ok && field(now, key) != was {
			return false
		}
	}
	return true
}

// alike says whether two addresses are of one family and on one interface.
func alike(a, b string) bool {
	address, link, _ := strings.Cut(a, " on ")
	other, on, _ := strings.Cut(b, " on ")
	return on == link && strings.Contains(other, ":") == strings.Contains(address, ":")
}

// another says whether the interface of an address has another one of the same family.
func another(name string, is map[string]string) bool {
	for other := range is {
		if alike(other, name) {
			return true
		}
	}
	return false
}

func ownLink(name, before, now string, was map[string]string) bool {
	kind, master := field(now, "kind"), field(now, "master")
	switch {
	case before == "":
		_, known := was[master]
		// Hardware was plugged in; a module was loaded; or somebody who had a bridge before, as a
		// container engine of the operator's, has another port on it.
		return kind == "device" || slices.Contains(fallbackLinks, name) || master != "" && known && (kind == "veth" || kind == "tuntap")
	case now == "":
		// Containers and machines of the operator's end.
		return field(before, "kind") == "veth" || field(before, "kind") == "tuntap"
	}
	for word := range strings.FieldsSeq(before) { // which an older agent may have recorded: it knew fewer
		key, was, _ := strings.Cut(word, "=")
		if is := field(now, key); is != was && (key != "down" || is != "false") {
			return false
		}
	}
	return true // as it was, or somebody switched it on
}

// Inside says of a thing that came whether it goes with another one that came: a chain with its
// table.
func Inside(kind Kind, name string, came func(string) bool) bool {
	if kind != NFTables {
		return false
	}
	words := strings.Fields(name)
	if len(words) < 4 {
		return false
	}
	return came(strings.Join([]string{"table", words[1], words[2]}, " ")) ||
		words[0] == "rule" && came(strings.Join([]string{"chain", words[1], words[2], words[3]}, " "))
}

// field is the value of a word KEY=VALUE.
func field(text, key string) string {
	for _, word := range strings.Fields(text) {
		if value, ok := strings.CutPrefix(word, key+"="); ok {
			return value
		}
	}
	return ""
}

func hasField(text, key string) bool {
	return slices.ContainsFunc(strings.Fields(text), func(word string) bool { return strings.HasPrefix(word, key+"=") })
}

func hasPrefix(prefixes []string, name string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}
