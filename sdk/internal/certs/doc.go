// Package certs serves certificates and CA bundles from files that are replaced
// while the process runs, as cert-manager and mounted Secrets do.
//
// It imports the standard library only.
package certs
