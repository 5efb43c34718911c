package extension

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
)

// TestDrainDelay: a server that ends waits for load balancers before it stops to accept.
func TestDrainDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{DrainDelay: 7 * time.Second, Logger: logr.Discard()})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := s.drain(t.Context(), func() {}, &http.Server{ReadHeaderTimeout: time.Second}); err != nil || time.Since(began) != 7*time.Second {
			t.Errorf("%v after %s, want nil after 7s", err, time.Since(began))
		}
	})
}
