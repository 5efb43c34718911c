// Package software installs host bundles, and takes them away so that the file system
// is as it was.
//
//	bundles ── wanted ──> entries ─┐
//	record ───────────────────────┼─ planned (pure) ──> steps ── disk ──> the host
//	the host ── found ────────────┘
//
// Installing a version is adding it to the versions of the record, uninstalling is taking
// it out; either way the host is then made what the remaining versions want. The record
// names everything this package ever put on the host, and is written before it is put
// there: whatever is not in it belongs to somebody else, is never replaced and never
// removed. So a kill at any write is mended by the same command, or by the opposite one.
//
// On the host:
//
//	/var/lib/slipway-software.json           the record
//	/opt/slipway/store/<digest>/             components, each appears whole and verified
//	/opt/slipway/kubernetes/<version>/       links to the programs of a version
//	/etc, /usr/local/bin                     files and links that the bundle lists
//	/var/lib/slipway/                        what the software itself writes
//
// installer.go brings the Kubernetes version of an operation onto the host, and removes those that
// nothing uses, on hosts whose agent is told to. What it installs is the host bundle that the
// operation names by its digest, signed by a key of this host.
//
// It may import core/journal, core/operation, hostos, run/config and internal/hostbundle.
package software
