package bundleserver_test

import (
	"net"
	"net/http"
	"testing"
)

// TestWhoSaysNothingKeepsNoHostAway holds that 1,500 connections without a byte, which need no credentials, do not
// keep a host with its certificate from its bundles. The host is answered before one more silent connection, to a
// server that has nothing to do, reaches its timeout.
func TestWhoSaysNothingKeepsNoHostAway(t *testing.T) {
	const silent = 1500
	w, idle := newWorld(t).loaded(), newWorld(t).loaded()
	dial := func(address string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	if response, err := w.get(w.agent("host-1"), tags); err != nil || response.StatusCode != http.StatusOK { //nolint:bodyclose // get closes it when the test ends
		t.Fatalf("without them: %v, %v", response, err)
	}
	for range silent {
		dial(w.address)
	}
	over, answered := make(chan struct{}), make(chan error, 1)
	alone := dial(idle.address)
	go func() {
		_, _ = alone.Read(make([]byte, 1))
		close(over)
	}()
	go func() {
		_, err := w.get(w.agent("host-1"), tags) //nolint:bodyclose // get closes it when the test ends
		answered <- err
	}()
	select {
	case err := <-answered:
		if err != nil {
			t.Error(err)
		}
	case <-over:
		t.Errorf("with %d connections that say nothing a host was not answered within the time that the server gives to one of them", silent)
	}
}
