// Package provider is Slipway's own infrastructure provider as a part of the
// plane: the same controllers, manifests and rights that clusterctl installs, run
// in the plane's process.
//
// It is imported by internal/cli.
package provider
