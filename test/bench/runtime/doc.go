// Package runtime measures the runtime SDK beside upstream's, in one run on one
// machine: calls over TLS on loopback, a fan-out, an extension that hangs, and
// peers that send what no peer should.
//
// Upstream's server is sigs.k8s.io/cluster-api/exp/runtime/server. Its client is
// internal, so upstreamCaller takes the same steps, less the metrics.
// Run it with make bench-runtime. Without -measure the same code runs for a
// moment only and judges no figure, which keeps it from rotting.
package runtime
