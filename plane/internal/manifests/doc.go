// Package manifests installs what clusterctl would: CRDs, webhook
// configurations, RBAC and the inventory of the Cluster API providers.
//
// Upstream's objects are rendered from the cluster-api module at build time, by
// the program in gen (`make manifests`), into zz_rendered, which is embedded
// and not committed. An object is applied only when its content differs from
// what was applied last, so a restart writes nothing.
//
// The package imports apimachinery, client-go and clusterctl's API types.
package manifests

//go:generate go run ./gen
