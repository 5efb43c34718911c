// Package hookdocs documents the runtime hooks: OpenAPI v3 documents of the
// catalogs, and one page that shows them in a browser without anything from the
// network.
//
// The plane serves the page on its socket, and `slipway openapi --serve` on a port of
// the machine's loopback. The package may import the SDK.
package hookdocs
