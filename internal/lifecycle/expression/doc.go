// Package expression compiles and evaluates the CEL expressions of LifecyclePolicies:
// the environment is that of Kubernetes' own admission policies (its libraries and its
// cost model), with the variables of this API. What an expression costs is limited
// twice: when it is compiled, estimated for a large namespace, and when it runs.
//
// match.go says which Clusters a policy is about. The handlers of the hooks, the controllers,
// admission and `slipway lifecycle explain` all use it, so that what is explained is what is done.
//
// It may import the API only.
package expression
