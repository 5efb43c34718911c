// Package run puts slipway-agent together from its configuration and runs it: Agent is
// the whole program on a real host; Service enrolls one agent and serves its host, in one
// management cluster after the other as the host is handed over. cmd/slipway-agent imports
// it, and simulated hosts import Service.
//
// It imports every package of the agent but preflight, join and uninstall. They are, from
// the inside out:
//
//	core       decides: Plan, a pure function of journal and spec, and the loop around it
//	hostos     reads and changes the operating system: files, programs, kubelet, network
//	link       talks to the management cluster: identity, watch, heartbeat, reports, hand-over
//	vip        holds the control-plane address, with or without a management cluster
//	effects    does what was decided: bootstrap, adopt, upgrade, reset
//	software   installs what a node needs from a signed bundle, that of an operation too, and removes it
//	selfupdate fetches another version of slipway-agent, tries it, and goes back if it fails
//	run/config reads the configuration and names the files of the state directory
//	join       makes a host known to a management cluster, before there is an agent
//	uninstall  removes all of that from a host that is no node any more, and reports leftovers
//	preflight  reports what a host lacks, before there is an agent
//
// One operation passes through them so:
//
//	Host ── link ──> core.Plan(journal, spec) ──> effects ──> journal ──> link ──> Host.status
//
// The agent may import the API types, internal/host, internal/hostbundle, internal/durable
// and client-go; never a controller. Below hostos, hostfs names files, command runs programs,
// kubelet sets what the kubelet is started with, network lists and removes what Kubernetes
// adds, inventory describes the host: nothing there decides anything, and
// kubelet and network fill errors and records of core. test/imports holds who imports whom.
package run
