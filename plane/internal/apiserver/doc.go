// Package apiserver runs kube-apiserver inside the plane's process.
//
// It is assembled from upstream's options, not from its command, as that takes
// over the process's signals and flags. What the plane's API does not need is
// switched off: built-in APIs for workloads (the plane runs none), and the
// admission plugins that belong to them.
//
//	apiserver.go       the component
//	args.go            flags, and which built-in APIs and admission plugins are off
//	files.go           configuration files: anonymous requests, the audit log
//	watchcache.go      which kinds have a watch cache
//	openapi.go         the index of OpenAPI documents, which upstream's handler cannot serve safely
//	roles.go           RBAC's default roles as a component of its own
//
// Upstream keeps some state in package variables (feature gates, metrics): one
// process may run several servers one after the other, not with different
// feature gates.
//
// The package imports component and k8s.io/kubernetes.
package apiserver
