package config

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Clean says what belongs to this host although it was not there before a claim.
type Clean struct {
	// Ignore is what a reset leaves alone, and what is no obstacle to the proof that the host is clean.
	// Only the operator of the host can say so.
	Ignore []Ignored `json:"ignore,omitempty"`
}

// Ignored is a change that has another cause than the node.
type Ignored struct {
	// Kind of state: address, binfmt, bpf, cgroup, device, device-file, environment, file, fou, hold, hostname, image, interface, ipset,
	// iptables, ipvs, kexec, listener, module, mount, neighbour, nexthop, nftables, qdisc, route, rule, service, swap, sysctl or xfrm.
	Kind string `json:"kind,omitempty"`
	// Name of the entry as messages have it, without its kind; * stands for any characters but a slash,
	// and a name that ends in /** is for all below.
	Name string `json:"name,omitempty"`
	// Reason is written to the log of the agent. Required. An entry without one, or of another kind, is
	// left out, and told in condition ConfigurationAccepted of the Host.
	Reason string `json:"reason,omitempty"`
}

// Accepted returns the entries that mean something, and what is wrong with the others. Those are no
// reason not to run: without them more is compared, not less.
func (c *Clean) Accepted(kinds []string) (accepted []Ignored, wrong []string) {
	for n, i := range c.Ignore {
		_, pattern := path.Match(i.Name, "")
		var what string
		switch {
		case !slices.Contains(kinds, i.Kind):
			what = fmt.Sprintf("kind must be one of %s", strings.Join(kinds, ", "))
		case i.Name == "":
			what = "name is required"
		case pattern != nil:
			what = "name is no pattern: " + pattern.Error()
		case i.Reason == "":
			what = "reason is required"
		default:
			accepted = append(accepted, i)
			continue
		}
		wrong = append(wrong, fmt.Sprintf("entry %d of clean.ignore (kind %.64q, name %.256q): %s", n+1, i.Kind, i.Name, what))
	}
	return accepted, wrong
}
