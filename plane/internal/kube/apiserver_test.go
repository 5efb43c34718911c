package kube

import (
	"net"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/plane/internal/network"
)

// TestInitLeavesNothingRunning holds that Init tells when the port is taken, and opens none: what
// it left would go on when another component cannot be initialised.
func TestInitLeavesNothingRunning(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bind := taken.Addr().String()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	s := NewServer(ServerOptions{Dir: t.TempDir(), Bind: bind, Probe: &rest.Config{Host: "https://" + bind}, Doors: []network.Door{{Listener: door}}})
	if err := s.Init(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot listen on "+bind) {
		t.Errorf("the port is taken: %v", err)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if s.opts.Listener != nil {
		t.Error("it accepts at the doors")
	}
	again, err := net.Listen("tcp", bind)
	if err != nil {
		t.Errorf("it listens: %v", err)
	} else {
		_ = again.Close()
	}
}
