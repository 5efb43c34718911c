// Package listener bounds the connections of a server such that clients that have not identified themselves
// cannot keep out those that have.
//
// A connection is anonymous until its client has presented a verified certificate, or until a handler that has
// authenticated a request by other means calls [Identify]. Anonymous connections, those in a TLS handshake among
// them, have a limit of their own, which their client addresses share. Identified connections have another one,
// which the identities share. A listener at its limit closes a connection to accept a new one: of the address or
// identity that has the most connections, the connection that has been silent for the longest time.
//
// [extension.Server] uses it; servers of one's own may use it as well. The package imports the standard library only.
//
// [extension.Server]: https://pkg.go.dev/github.com/slipway-dev/slipway/sdk/extension#Server
package listener
