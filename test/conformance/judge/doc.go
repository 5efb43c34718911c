// Package judge runs upstream's own managers, built from the cluster-api module this
// repository requires and changed in nothing, against a real API server, and with
// them any number of subjects: the providers that are judged.
//
// Each manager runs under its own ServiceAccount with the rights its manifests give
// it. kube-controller-manager aggregates the ClusterRoles and collects garbage, as in
// a management cluster.
//
// Only tests and benchmarks may import it. It knows nothing of this repository's providers.
package judge
