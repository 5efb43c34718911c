//go:build !unix

package h1

import "net"

// newProbe returns nil: connections cannot be checked here and are not kept.
func newProbe(net.Conn) func() bool { return nil }
