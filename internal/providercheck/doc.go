// Package providercheck examines the release directory of any Cluster API provider
// against the rules of clusterctl's provider contract and of the contracts for
// infrastructure providers, as far as files can show them.
//
//	Load reads a directory  →  Rules, in order, look at it  →  Findings
//
// A Rule is data: an ID, the section of the contract it comes from, what to do when
// it is broken, and a pure function. What only a running provider can show (pausing,
// finalizers, the SSA dry run) is not here; test/conformance shows it for Slipway.
//
// It is imported by internal/cli.
package providercheck
