// Package bundleserver serves host bundles to hosts: the part of the OCI distribution API
// by which a client reads, over TLS, to the agents of Hosts alone.
//
//	GET /v2/host-bundles/tags/list              Kubernetes versions, slipway-agent-VERSION
//	GET /v2/host-bundles/manifests/REFERENCE    index of a tag, manifests, signatures
//	GET /v2/host-bundles/referrers/DIGEST       signatures of an index
//	GET /v2/host-bundles/blobs/DIGEST           all else, by ranges, too
//
// Content goes from the disk to the connection in small pieces. So many downloads at once
// are served, so many of one host among them, and who comes beyond that is told when to
// come again. What hosts trust is the signature in the bundle, never who serves it.
//
// It imports the API, hostbundle and controller-runtime's client; internal/manager starts it.
package bundleserver
