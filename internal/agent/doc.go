// Package agent holds slipway-agent in rooms, from the inside out; each imports only
// those above it, and run/config, which reads the configuration and names the files of the
// state directory:
//
//	core       decides: Plan, a pure function of journal and spec, and the loop around it
//	hostos     asks and tells the operating system: files, programs, kubelet, network
//	link       talks to the management cluster: identity, watch, heartbeat, reports, hand-over
//	vip        holds the control-plane address, with or without a management cluster
//	effects    does what was decided: bootstrap, adopt, upgrade, reset
//	software   installs what a node needs from a signed bundle, and takes it away
//	ondemand   installs the Kubernetes version of an operation, by software
//	selfupdate brings another version of slipway-agent, tries it, and goes back if it fails
//	run        puts slipway-agent together from its configuration
//	join       makes a host known to a management cluster, before there is an agent
//	uninstall  takes all of that off a host that is no node any more, and tells what is left
//	preflight  tells an operator what a host lacks, before there is an agent
//
// One operation passes through them so:
//
//	Host ── link ──> core.Plan(journal, spec) ──> effects ──> journal ──> link ──> Host.status
//
// The agent may import the API types, internal/host, internal/hostbundle, internal/durable
// and client-go; never a controller. test/imports holds the order of the rooms.
package agent
