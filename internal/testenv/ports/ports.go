// Package ports finds ports for servers of tests, whose flags take no listener.
//
// Only tests may import it. It imports nothing but the standard library.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
)

// The ports are below those the kernel gives to connections: one of those could be taken
// by a client before the server listens.
const first, count = 20000, 12000

// next begins anywhere, for several processes of tests at once, and gives none twice.
var next = func() *atomic.Int64 {
	next := &atomic.Int64{}
	next.Store(rand.Int64N(count))
	return next
}()

// Find returns so many ports of 127.0.0.1 that nobody listens on.
func Find(n int) ([]int, error) {
	var free []int
	for range count {
		port := first + int(next.Add(1)%count)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = listener.Close()
		if free = append(free, port); len(free) == n {
			return free, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports from %d to %d", n, first, first+count-1)
}

// Free is Find of one port for a test.
func Free(t testing.TB) int {
	t.Helper()
	free, err := Find(1)
	if err != nil {
		t.Fatal(err)
	}
	return free[0]
}
