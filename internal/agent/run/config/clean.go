package config

// Clean says what belongs to this host although it was not there before a claim.
type Clean struct {
	// Ignore is what a reset leaves alone, and what is no obstacle to the proof that the host is clean.
	// Only the operator of the host can say so.
	Ignore []Ignored `json:"ignore,omitempty"`
}

// Ignored is a change that has another cause than the node.
type Ignored struct {
	// Kind of state: address, cgroup, file, image, interface, ipset, iptables, listener, mount,
	// nftables, qdisc, route, rule, sysctl or xfrm.
	Kind string `json:"kind,omitempty"`
	// Name of the entry as messages have it, without its kind; * stands for any characters but a slash,
	// and a name that ends in /** is for all below.
	Name string `json:"name,omitempty"`
	// Reason is written to the log of the agent. Required.
	Reason string `json:"reason,omitempty"`
}

func (c *Clean) validate(fail func(field, format string, args ...any)) {
	for _, i := range c.Ignore {
		if i.Kind == "" || i.Name == "" || i.Reason == "" {
			fail("clean.ignore", "entries need kind, name and reason, not %+v", i)
		}
	}
}
