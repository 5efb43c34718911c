package wire

import (
	"bytes"
	"io"
	"sync"
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// GetBuffer returns an empty buffer from the pool.
func GetBuffer() *bytes.Buffer {
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	return buf
}

// PutBuffer returns buf to the pool unless it has grown large. The caller must
// not use it afterwards.
func PutBuffer(buf *bytes.Buffer) {
	if buf.Cap() <= pooled {
		buffers.Put(buf)
	}
}

// Payload is an encoded request that an http.Transport sends. A transport may
// read a body after RoundTrip returned, so the buffer goes back to the pool when
// the last reader has closed it, and not before.
type Payload struct {
	mu      sync.Mutex
	buf     *bytes.Buffer
	readers int
}

// NewPayload takes over buf. The caller holds it like a reader until Release.
func NewPayload(buf *bytes.Buffer) *Payload { return &Payload{buf: buf, readers: 1} }

// Len returns the length of the payload in bytes.
func (p *Payload) Len() int64 { return int64(p.buf.Len()) }

// Open returns a reader from the start of the payload.
func (p *Payload) Open() (io.ReadCloser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.buf == nil {
		return nil, io.ErrClosedPipe
	}
	p.readers++
	return &payloadReader{payload: p}, nil
}

// Release ends the caller's hold.
func (p *Payload) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
}

func (p *Payload) release() {
	if p.readers--; p.readers == 0 {
		PutBuffer(p.buf)
		p.buf = nil
	}
}

type payloadReader struct {
	payload *Payload
	at      int
	closed  bool
}

// Read implements io.Reader. Reading after Close fails.
func (r *payloadReader) Read(p []byte) (int, error) {
	r.payload.mu.Lock()
	defer r.payload.mu.Unlock()
	if r.closed {
		return 0, io.ErrClosedPipe
	}
	data := r.payload.buf.Bytes()[r.at:]
	if len(data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, data)
	r.at += n
	return n, nil
}

// WriteTo implements io.WriterTo.
func (r *payloadReader) WriteTo(w io.Writer) (int64, error) {
	r.payload.mu.Lock()
	closed, data := r.closed, []byte(nil)
	if !closed {
		data = r.payload.buf.Bytes()[r.at:]
	}
	r.payload.mu.Unlock()
	if closed {
		return 0, io.ErrClosedPipe
	}
	// The buffer stays until the reader is closed, which is after this.
	n, err := w.Write(data)
	r.at += n
	return int64(n), err
}

// Close implements io.Closer. Closing twice is no error.
func (r *payloadReader) Close() error {
	r.payload.mu.Lock()
	defer r.payload.mu.Unlock()
	if !r.closed {
		r.closed = true
		r.payload.release()
	}
	return nil
}
