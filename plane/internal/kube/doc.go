// Package kube runs Kubernetes inside the plane's process: kube-apiserver, the key that its Secrets are encrypted with, and
// the few controllers that an API without workloads needs.
//
//	apiserver.go       kube-apiserver as a component, and RBAC's default roles as one of their own
//	args.go            its flags, and which built-in APIs and admission plugins are off
//	files.go           configuration files: anonymous requests, the audit log
//	clients.go         which connections belong to authenticated clients
//	watchcache.go      which kinds have a watch cache
//	openapi.go         the index of OpenAPI documents, which upstream's handler cannot serve safely
//	encryption.go      the key: a file that kube-apiserver reads (EncryptionConfiguration), outside of etcd's directory
//	key.go             Key: makes the file, and refuses to start where etcd has Secrets and the file is gone
//	controllers.go     the controllers as a component
//	loops.go           which ones: garbage collection, deletion of namespaces, signing and cleaning of certificate
//	                   requests, expiry of bootstrap tokens, aggregation of ClusterRoles
//	aggregation.go     whether the aggregated ClusterRoles have their rules
//
// kube-apiserver is assembled from upstream's options, not from its command, as that takes over the process's signals and
// flags. What the plane's API does not need is switched off: built-in APIs for workloads (the plane runs none), and the
// admission plugins that belong to them.
//
// Each controller runs under the name of the service account that Kubernetes' own RBAC bootstrap policy made for it, so
// none can do more than upstream allows it.
//
// Upstream keeps some state in package variables (feature gates, metrics): one process may run several servers one after
// the other, not with different feature gates.
//
// The package imports component, network, pki's Client type, statedir and k8s.io/kubernetes.
package kube
