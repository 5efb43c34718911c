// Package agentrollout plans which hosts are asked now to update their slipway-agent. It is
// pure: a Rollout, which is the release and what was seen of the Hosts, goes in; a Plan comes
// out. The same hosts always give the same plan, whatever order they come in.
//
// What a plan keeps, if all or some of its hosts are asked:
//
//   - The first host goes alone, until it runs the bundle by the word of its agent.
//   - No host is asked while one of another failure domain updates and is connected.
//   - Of a failure domain no more than a quarter update at once, or one, or maxAtOnce.
//   - Of the hosts that may hold one control-plane address, one updates at a time.
//   - No host is asked while one that tried this bundle runs its former version.
//   - No host is asked that is not connected, not approved or paused. Such a host holds up
//     nobody; it is asked when that ends, in the turn of its failure domain.
//
// A host that was asked and is away since is missing: it takes no place of the others, and
// its failure domain does not wait for it. But where more are missing than chance explains
// (tolerable), the update may have cut them off, and nobody is asked until they return.
//
// It may import the API types, apimachinery and internal/host.
package agentrollout
