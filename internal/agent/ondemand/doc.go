// Package ondemand brings the Kubernetes version of an operation onto the host, and removes
// those that nothing uses, on hosts whose agent is told to. What is installed is the host
// bundle that the operation names by its digest, signed by a key of this host.
//
// It may import core/journal, core/operation, software and internal/hostbundle; the package
// run does it.
package ondemand
