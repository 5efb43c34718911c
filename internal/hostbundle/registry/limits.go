package registry

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

const (
	// maxDescription is how many bytes a server may send, in all answers together, for the
	// description of one bundle and its signatures. Real ones have some hundred KiB.
	maxDescription = hostbundle.MaxDescription
	// smallTimeout is the time that a server has for a list or a document, longDescription for all tries of all
	// that describe one bundle.
	smallTimeout, longDescription = 2 * time.Minute, 15 * time.Minute
	// least is how many bytes of content a server must send in each window, or the connection
	// counts as cut: 70 kbit/s.
	least, window = 512 << 10, time.Minute
)

// piece is how much of a blob one attempt has to download to count as progress: without a bound,
// requests to a server that sends a byte for each would never end.
func piece(d ocispec.Descriptor) int64 { return min(least, max(d.Size/16, 1)) }

// brief gives a try that brings something small a deadline, within the budget of its description.
func brief(try func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		timeout := smallTimeout
		if b, ok := ctx.Value(budgetKey{}).(*budget); ok {
			if timeout = min(timeout, b.time); timeout <= 0 {
				return &hostbundle.Error{Reason: hostbundle.ReasonUnreachable, Err: fmt.Errorf("what describes the bundle did not come within %s", longDescription)}
			}
			began := time.Now()
			defer func() { b.time -= time.Since(began) }()
		}
		limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the answer was not complete after %s", timeout))
		defer cancel()
		err := try(limited)
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			return &againError{err: context.Cause(limited)}
		}
		return err
	}
}

// atLeastRate calls cut when less than least came within a window. came tells of each piece,
// restart begins a window.
func atLeastRate(cut func(error)) (came func(n int), restart, stop func()) {
	var n atomic.Int64
	var timer *time.Timer
	timer = time.AfterFunc(window, func() {
		if got := n.Swap(0); got < least {
			cut(fmt.Errorf("only %d bytes came within %s", got, window))
			return
		}
		timer.Reset(window)
	})
	return func(more int) { n.Add(int64(more)) },
		func() {
			n.Store(0)
			timer.Reset(window)
		},
		func() { timer.Stop() }
}

// budgetKey is where a context has its budget.
type budgetKey struct{}

// budget is what may still come of a description, and the time for it.
type budget struct {
	bytes atomic.Int64
	time  time.Duration // of one goroutine
}

// withBudget bounds what comes in answers to requests with the context, all together.
func withBudget(ctx context.Context, bytes int64) context.Context {
	b := &budget{time: longDescription}
	b.bytes.Store(bytes)
	return context.WithValue(ctx, budgetKey{}, b)
}

// metered is a body that counts against the budget of its request.
type metered struct {
	io.ReadCloser
	left *budget
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	if m.left.bytes.Add(-int64(n)) < 0 {
		return 0, tooMuch()
	}
	return n, err
}

func tooMuch() error {
	return &hostbundle.Error{Reason: hostbundle.ReasonCorrupt, Err: fmt.Errorf("what describes the bundle has more than %d MiB", int64(maxDescription)>>20)}
}
