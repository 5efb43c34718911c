// Package sdk is the root of the Runtime SDK module: all that the author of a
// runtime extension imports. It depends on the types of Cluster API and on libraries for
// metrics, traces, logs and CEL, never on client-go or k8s.io/kubernetes.
package sdk
