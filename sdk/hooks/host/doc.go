// Package host defines the hooks of the slipway infrastructure provider, in two
// versions, and the conversions between them.
//
// v1alpha1 names a host only. v1beta1, which callers use, describes it, so that a
// handler can decide by its capacity and labels without a client of its own. The
// package may import its versions and package hook.
package host
