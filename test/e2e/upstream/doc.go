// Package upstream runs the specs that sigs.k8s.io/cluster-api/test/e2e exports, unmodified,
// through the released templates, against a plane with real kubelets. What upstream's
// maintainers hold providers to, Slipway is held to; docs/upstream-e2e.md tells of every
// spec whether it passes, and why not.
//
// It is a module of its own, for upstream's framework brings the clients of docker, kind and
// kubetest, which nothing else here needs. Specs are built with upstream's own build tag,
// e2e, and run by `make test-upstream`. Without the tag there is the test that holds
// the table against upstream's source.
//
// Nothing may import this package.
package upstream
