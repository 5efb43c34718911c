// Package lifecycle runs slipway-lifecycle beside the plane: a runtime extension is
// never a part of the process that calls it.
//
// Its component registers the extension, starts the program in the network namespace
// of the plane under an identity of its own, and starts it again when it dies. While
// it does not answer, hooks fail closed: Clusters wait. The kernel ends it with the
// plane, however the plane ends.
//
// A Registration keeps the ExtensionConfig of an extension that runs beside the plane
// or in it: what clusterctl would install, with the plane's CA, which is renewed. Those
// of extensions in the plane's process have a Registrar each.
//
// The package imports component, manifests, capi, pki and config.
package lifecycle
