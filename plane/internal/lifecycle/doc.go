// Package lifecycle runs slipway-lifecycle beside the plane: a runtime extension is
// never a part of the process that calls it.
//
// Its component registers the extension, starts the program in the network namespace
// of the plane under an identity of its own, and starts it again when it dies. While
// it does not answer, hooks fail closed: Clusters wait. The kernel ends it with the
// plane, however the plane ends.
//
// The package imports component, manifests, pki and config. It is imported by serve
// and cli.
package lifecycle
