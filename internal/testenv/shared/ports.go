package shared

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
)

// The ports are below those the kernel gives to connections: one of those could be taken
// by a client before the server listens.
const firstPort, portCount = 20000, 12000

// nextPort begins anywhere, as several test processes run concurrently, and returns none twice.
var nextPort = func() *atomic.Int64 {
	next := &atomic.Int64{}
	next.Store(rand.Int64N(portCount))
	return next
}()

// FreePorts returns n ports of 127.0.0.1 that nobody listens on.
func FreePorts(n int) ([]int, error) {
	var free []int
	for range portCount {
		port := firstPort + int(nextPort.Add(1)%portCount)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = listener.Close()
		if free = append(free, port); len(free) == n {
			return free, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports from %d to %d", n, firstPort, firstPort+portCount-1)
}

// FreePort returns one port of 127.0.0.1 that nobody listens on, for servers whose flags take no listener.
func FreePort(t testing.TB) int {
	t.Helper()
	free, err := FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return free[0]
}
