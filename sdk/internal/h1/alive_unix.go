//go:build unix

package h1

import (
	"errors"
	"net"
	"syscall"
)

// newProbe returns a function that tells whether nothing is to be read from a
// connection, nil if the connection gives no access to its socket.
func newProbe(c net.Conn) func() bool {
	source, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := source.SyscallConn()
	if err != nil {
		return nil
	}
	var quiet bool
	read := func(fd uintptr) bool {
		var one [1]byte
		_, err := syscall.Read(int(fd), one[:])
		quiet = errors.Is(err, syscall.EAGAIN)
		return true
	}
	return func() bool { return raw.Read(read) == nil && quiet }
}
