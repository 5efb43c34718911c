// Package host defines the hooks of the slipway infrastructure provider. Requests describe the
// host, so that a handler can decide by its capacity and labels without a client of its own.
// The package may import its version and package hook.
package host
