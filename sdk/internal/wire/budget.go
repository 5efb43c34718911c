package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// ErrBusy means that the bodies in flight use up the memory for bodies, and none
// of it became free in time.
var ErrBusy = errors.New("too many large bodies in flight")

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
	// freeFootprint is what such a body may become when it is decoded.
	freeFootprint = 256 << 10
	// Piece is the part of a large body that is read at a time.
	Piece = 256 << 10
	// pooled is the largest buffer worth keeping.
	pooled = Piece
	// weight is what a byte of a body costs: itself and what is decoded of it.
	weight = 2
	// patience is how long a large body waits for memory. It is less than the
	// default timeout of a handler, so that the caller learns the reason.
	patience = 5 * time.Second
)

// Budget bounds the memory of all bodies in flight and of what they are decoded
// to. Large bodies wait for their turn.
type Budget struct {
	limit int64
	free  *semaphore.Weighted
	used  atomic.Int64 // what free has given away
	small atomic.Int64
}

// NewBudget returns a budget of limit bytes for large bodies. Up to 256 bodies of
// up to 32 KiB are read on top of it.
func NewBudget(limit int64) *Budget {
	return &Budget{limit: limit, free: semaphore.NewWeighted(limit)}
}

// Source is a body to read.
type Source struct {
	// Reader is the body.
	Reader io.Reader
	// Length is the announced length of the body, negative if unknown.
	Length int64
	// Limit is the longest body that is accepted.
	Limit int64
	// Progress is called before each piece of a large body is read, to give the
	// peer time for it. Default: nothing.
	Progress func()
	// Partial is called with what was read of a body that cannot be read to its end, and whether it is all
	// that came. Nil calls nothing.
	Partial func(data []byte, all bool)
}

// Body is a body held in memory.
type Body struct {
	budget   *Budget
	data     []byte
	buffer   *[]byte // what data came from, nil if it is not pooled
	reserved int64
	small    bool
	// ended says that data is all that came of a body that broke off.
	ended bool
}

var bodyBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 8<<10); return &b }}

// Read reads a body to its end. It fails with a *TooLargeError beyond the limit
// and with ErrBusy when the memory for bodies is used up and does not become
// free. Memory for a large body is reserved before it is used.
func (b *Budget) Read(ctx context.Context, s Source) (*Body, error) {
	if s.Length > s.Limit {
		if s.Partial != nil {
			s.Partial(nil, false)
		}
		return nil, &TooLargeError{Limit: s.Limit}
	}
	body := &Body{budget: b, buffer: bodyBuffers.Get().(*[]byte)}
	body.data = (*body.buffer)[:0]
	if body.small = b.small.Add(1) <= maxSmall; !body.small {
		b.small.Add(-1)
	}
	if err := body.read(ctx, s); err != nil {
		if s.Partial != nil {
			s.Partial(body.data, body.ended)
		}
		body.Release()
		return nil, err
	}
	return body, nil
}

func (b *Body) read(ctx context.Context, s Source) error {
	for {
		if len(b.data) == cap(b.data) {
			if err := b.grow(ctx, s); err != nil {
				return err
			}
		}
		end := cap(b.data)
		if end > pooled {
			end = min(end, len(b.data)+pooled)
		}
		if len(b.data) >= small && s.Progress != nil {
			s.Progress()
		}
		n, err := s.Reader.Read(b.data[len(b.data):end])
		b.data = b.data[:len(b.data)+n]
		if int64(len(b.data)) > s.Limit {
			return &TooLargeError{Limit: s.Limit}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			b.ended = true
			return err
		}
	}
}

// grow makes room: all of it at once when the length is known, else the double.
func (b *Body) grow(ctx context.Context, s Source) error {
	// One byte more than the body has room for, to read its end.
	size := min(max(2*cap(b.data), int(s.Length)+1), int(s.Limit)+1)
	if size <= pooled {
		size = max(small, 1<<bits.Len(uint(size-1)))
	}
	if err := b.reserve(ctx, int64(size)); err != nil {
		return err
	}
	data := make([]byte, len(b.data), size)
	copy(data, b.data)
	b.recycle()
	b.data = data
	if size <= pooled {
		b.buffer = &data
	}
	return nil
}

// reserve charges the budget for a body of size bytes, in steps that double.
func (b *Body) reserve(ctx context.Context, size int64) error {
	if b.small && size <= small || weight*size <= b.reserved {
		return nil
	}
	// The largest accepted body has the budget for itself.
	return b.reserveBytes(ctx, min(max(weight*size, 2*b.reserved), b.budget.limit))
}

// reserveBytes raises the reservation to total.
func (b *Body) reserveBytes(ctx context.Context, total int64) error {
	more := total - b.reserved
	switch {
	case total > b.budget.limit:
		return &FootprintError{Limit: b.budget.limit}
	case more <= 0:
		return nil
	case !b.budget.free.TryAcquire(more):
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := b.budget.free.Acquire(ctx, more); err != nil {
			return ErrBusy
		}
	}
	b.reserved += more
	b.budget.used.Add(more)
	return nil
}

// Bytes returns the body, valid until Recycle or Release.
func (b *Body) Bytes() []byte { return b.data }

// Recycle gives the bytes back, which must not be used afterwards, but keeps the
// reservation for what was decoded of them.
func (b *Body) Recycle() {
	b.recycle()
	b.data = nil
}

func (b *Body) recycle() {
	if b.buffer != nil && cap(b.data) <= pooled {
		*b.buffer = b.data[:0]
		bodyBuffers.Put(b.buffer)
	}
	b.buffer = nil
}

// Release gives back the bytes and the reservation. Releasing twice is no error.
func (b *Body) Release() {
	b.Recycle()
	b.budget.free.Release(b.reserved)
	b.budget.used.Add(-b.reserved)
	b.reserved = 0
	if b.small {
		b.budget.small.Add(-1)
		b.small = false
	}
}
