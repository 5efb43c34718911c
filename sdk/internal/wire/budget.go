package wire

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// Errors of Budget.Read.
var (
	// ErrBusy means that the bodies in flight use up the memory for bodies.
	ErrBusy = errors.New("too many large bodies in flight")
)

// TooLargeError tells that a body exceeds its limit.
type TooLargeError struct {
	// Limit is the most that is accepted, in bytes.
	Limit int64
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the body is larger than %d bytes", e.Limit)
}

const (
	// small is what a body may use without asking the budget. It exceeds the
	// size of a lifecycle hook's call many times, so that such calls are served
	// while large bodies exhaust the budget.
	small = 32 << 10
	// maxSmall bounds the bodies that use the allowance at the same time.
	maxSmall = 256
	// pooled is the largest buffer worth keeping.
	pooled = 256 << 10
)

// Budget bounds the memory of all bodies in flight.
type Budget struct {
	limit     int64
	used      atomic.Int64
	smallUsed atomic.Int64
}

// NewBudget returns a budget of limit bytes for large bodies. Up to 256 bodies of
// up to 32 KiB are read on top of it.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

func (b *Budget) acquire(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.used.Add(-n)
	return false
}

// Body is a body held in memory. Release gives its memory back.
type Body struct {
	data    []byte
	budget  *Budget
	charged int64
	small   bool
}

var bodies = sync.Pool{New: func() any { return make([]byte, 0, 8<<10) }}

// Read reads r to its end. It fails with a *TooLargeError beyond limit bytes and
// with ErrBusy when the budget is used up; memory grows with the bytes received,
// never with the length that the peer announces.
func (b *Budget) Read(r io.Reader, limit int64) (*Body, error) {
	body := &Body{budget: b, data: bodies.Get().([]byte)[:0]}
	if b.smallUsed.Add(1) <= maxSmall {
		body.small = true
	} else {
		b.smallUsed.Add(-1)
	}
	if err := body.charge(int64(cap(body.data))); err != nil {
		body.Release()
		return nil, err
	}
	if err := body.read(r, limit); err != nil {
		body.Release()
		return nil, err
	}
	return body, nil
}

func (b *Body) read(r io.Reader, limit int64) error {
	for {
		if len(b.data) == cap(b.data) {
			if err := b.grow(limit); err != nil {
				return err
			}
		}
		n, err := r.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		if int64(len(b.data)) > limit {
			return &TooLargeError{Limit: limit}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// grow doubles the buffer. The old one and the new one are both charged while
// they exist.
func (b *Body) grow(limit int64) error {
	size := min(int64(2*cap(b.data)), max(limit+1, int64(cap(b.data)+1)))
	old := b.charged
	if err := b.charge(size); err != nil {
		return err
	}
	data := make([]byte, len(b.data), size)
	copy(data, b.data)
	b.data = data
	b.budget.used.Add(-old)
	b.charged -= old
	return nil
}

func (b *Body) charge(n int64) error {
	if b.small && n <= small {
		return nil
	}
	if !b.budget.acquire(n) {
		return ErrBusy
	}
	b.charged += n
	return nil
}

// Bytes returns the body, valid until Release.
func (b *Body) Bytes() []byte { return b.data }

// Release gives the memory back. The bytes must not be used afterwards.
func (b *Body) Release() {
	if b.data == nil {
		return
	}
	if cap(b.data) <= pooled {
		bodies.Put(b.data[:0]) //nolint:staticcheck // the header's allocation is small next to the body's
	}
	b.data = nil
	b.budget.used.Add(-b.charged)
	if b.small {
		b.budget.smallUsed.Add(-1)
	}
}
