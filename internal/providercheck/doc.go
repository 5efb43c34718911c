// Package providercheck examines the release of any Cluster API provider against the rules
// of clusterctl's provider contract and of the contracts for infrastructure, bootstrap,
// control-plane and IPAM providers, as far as files can show them. For runtime extensions
// and add-ons there is clusterctl's contract only.
//
//	Source finds releases  →  Rules, in order, look at each  →  Findings
//
// A Rule is data: an ID, the section of the contract it comes from, what to do when
// it is broken, and a pure function. What only a running provider can show (pausing,
// finalizers, the SSA dry run) is not here; test/conformance shows it for Slipway.
//
// It is imported by internal/cli.
package providercheck
