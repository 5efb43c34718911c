// Package hooks answers the lifecycle hooks of Cluster API from LifecyclePolicies. A
// handler works on nothing itself: it makes sure that each policy that selects the
// Cluster has its LifecycleRun, and says what the runs say.
//
//	is the hook due for the Cluster, as the API server has it? if not, an error
//	policies (cache) ── matcher ──> per policy its newest run (cache)
//	                                 none, or given up ──> create: the name follows from
//	                                                       the call, so replicas agree
//	                                 waits ──────────────> retryAfterSeconds and why
//	                                 done ───────────────> read live
//	all done ──> the same for the policies as the API server has them, then pass
//
// What lets a cluster pass is read live; what blocks it may come from the cache.
// Whatever cannot be read is an error, upon which Cluster API waits and calls again.
//
// For Clusters without a topology Cluster API calls no hooks. Their spec and annotations are the
// request: ask.go starts their runs, and package admission says when they may continue.
package hooks
