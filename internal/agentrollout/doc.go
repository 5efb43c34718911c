// Package agentrollout plans which hosts update their slipway-agent now. It is pure: a Rollout,
// which is the release and the observed Hosts, goes in; a Plan comes out. The same hosts always
// give the same plan, in any sequence.
//
// A plan has these invariants, whether all or only some of its updates are requested:
//
//   - The first host is the only one, until its agent reports that it runs the bundle.
//   - No update is requested while a connected host of another failure domain updates.
//   - Of a failure domain no more than a quarter update at once, or one, or maxAtOnce.
//   - Of the hosts that share a control-plane address, one updates at a time.
//   - No update is requested while a host that tried this bundle runs its previous version.
//   - No update is requested of a host that is disconnected, paused or not approved. Such a host
//     delays no other; its update is requested when that ends, in its failure domain's turn.
//
// A host that disconnected after its update was requested is missing: it does not count against
// the limits, and its failure domain does not wait for it. But where more are missing than chance
// explains (tolerable), the update may have disconnected them, and no update is requested until
// they return.
//
// It may import the API types, apimachinery and internal/host.
package agentrollout
