package hooktest

import (
	"io"
	"log/slog"
	"sync"
	"testing"

	"github.com/go-logr/logr"
)

// testOutput is the output of a test until it ends. A handler that was abandoned may
// outlive it, and the output does not take a line then.
type testOutput struct {
	mu    sync.Mutex
	out   io.Writer
	ended bool
}

// Write implements io.Writer.
func (o *testOutput) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return len(line), nil
	}
	return o.out.Write(line)
}

func testLogger(t testing.TB) logr.Logger {
	o := &testOutput{out: t.Output()}
	t.Cleanup(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ended = true
	})
	return logr.FromSlogHandler(slog.NewTextHandler(o, nil))
}
