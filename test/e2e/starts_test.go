package e2e

import (
	"os/exec"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/level"
)

// TestThirtyStarts starts new planes one after the other on a machine whose processors are busy: parts of Kubernetes
// that wait for each other in one process meet in another order there. A crash costs a start seconds, not its success;
// the log has how many there were, and of what.
func TestThirtyStarts(t *testing.T) {
	level.Deep(t)
	const starts, spinning = 30, 4
	p := newPlane(t, 1<<10) // more than any machine has room for: it runs alone
	for range spinning {
		spin := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		spin.Env = p.Environ()
		if err := spin.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = spin.Wait() }) // t.Context ends it
	}
	crashes := 0
	for n := 1; n <= starts; n++ {
		begin := time.Now()
		p.must(append([]string{"up", "--fast", "--no-cluster", "--hosts", "0"}, p.Flags()...)...)
		took := time.Since(begin)
		s := p.status()
		if !s.Plane.Ready {
			t.Fatalf("start %d: plane %+v", n, s.Plane)
		}
		t.Logf("start %d: %.1fs, crashes %+v", n, took.Seconds(), s.Plane.Crashes)
		crashes += s.Plane.Crashes.Count
		p.must("down", "--purge", "--yes")
	}
	t.Logf("%d crashes in %d starts", crashes, starts)
}
