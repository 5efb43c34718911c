// Package hooktest helps to test runtime extensions and their callers.
//
// Call runs a handler through the whole server without a network. Start serves an
// extension over TLS on a loopback port, Discover a client that calls it. Faults is a server that misbehaves in
// the ways that callers must survive. Conformance runs the checks of package
// conformance as subtests. Fuzz calls a handler with requests of any content. Older
// defines an older version of a hook, for tests of callers and handlers whose versions differ.
//
// It is for tests only and may import all packages of the SDK.
package hooktest
