package management

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// A cluster whose API server is cut off takes no longer than it is given: `slipway status`
// waited for more than a minute.
func TestNodesOfASilentCluster(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := Nodes(ctx, &rest.Config{Host: "http://" + silent.Addr().String()})
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want that the time is over", err)
		}
	// Discovery alone gives up after 32 s.
	case <-time.After(20 * time.Second):
		t.Error("still waiting long after the time was over")
	}
}
