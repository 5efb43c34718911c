// Package apply executes apply steps: manifests from ConfigMaps and Secrets of the
// policy's namespace go into the workload cluster by server-side apply.
//
//	sources ──fetch──> contents, which the run has pinned ──parse──> objects, in their order
//	objects: Namespaces and CustomResourceDefinitions, wait until established, the rest
//
// It may import the API, step, rights and workload.
package apply
