package h1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	// maxRecord is the largest TLS record: a short request is one write.
	maxRecord = 16 << 10
	// inline is the largest body that is written before the response is read. It
	// fits the buffers of a socket; a larger one might wait for a peer that
	// refuses it and waits for us to read why.
	inline = 64 << 10
	// maxInformational bounds the responses before the response.
	maxInformational = 5
	// writeGrace is how long the rest of a request may take to be sent after its
	// response was read.
	writeGrace = 100 * time.Millisecond
)

// errHeader means that the header of a response exceeds MaxHeaderBytes.
var errHeader = errors.New("the header of the response is too large")

// conn is one connection. Between get and put it belongs to one request.
type conn struct {
	transport  *Transport
	raw        net.Conn
	tls        *tls.Conn
	reader     *bufio.Reader
	writer     *bufio.Writer
	generation int
	expiry     *time.Timer
	interrupt  func()
	probe      func() bool // nil for what cannot be probed
	// header is how much of a header may still be read, negative in a body.
	header int64
}

// Read implements io.Reader for the reader of the connection.
func (c *conn) Read(p []byte) (int, error) {
	if c.header < 0 {
		return c.tls.Read(p)
	}
	if c.header == 0 {
		return 0, errHeader
	}
	n, err := c.tls.Read(p[:min(int64(len(p)), c.header)])
	c.header -= int64(n)
	return n, err
}

// checkable tells whether alive can find out about the connection. One that
// cannot be checked is not kept.
func (c *conn) checkable() bool { return c.probe != nil }

// alive tells whether an idle connection can take a request: nothing arrived on
// it, neither its end nor data that nobody asked for.
func (c *conn) alive() bool { return c.probe != nil && c.probe() }

func (c *conn) close() { _ = c.tls.Close() }

// discard closes a connection whose state is not known, without a farewell that
// the peer might not read, and frees its slot.
func (c *conn) discard() {
	_ = c.raw.Close()
	<-c.transport.slots
}

// exchange sends r and reads the header of its response.
func (c *conn) exchange(r *http.Request) (*http.Response, error) {
	stop := context.AfterFunc(r.Context(), c.interrupt)
	var written chan error
	if r.ContentLength > inline {
		written = make(chan error, 1)
		go func() { written <- c.write(r) }()
	} else if err := c.write(r); err != nil {
		stop()
		return nil, err
	}
	response, err := c.readResponse(r)
	if err != nil {
		stop()
		return nil, err
	}
	response.Body = &body{ReadCloser: response.Body, conn: c, stop: stop, written: written,
		end:   response.ContentLength == 0,
		reuse: !response.Close && response.StatusCode >= http.StatusOK}
	return response, nil
}

func (c *conn) write(r *http.Request) error {
	defer closeBody(r)
	w := c.writer
	w.Reset(c.tls)
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	for _, part := range []string{r.Method, " ", r.URL.EscapedPath()} {
		_, _ = w.WriteString(part)
	}
	if r.URL.RawQuery != "" {
		_ = w.WriteByte('?')
		_, _ = w.WriteString(r.URL.RawQuery)
	}
	for _, part := range []string{" HTTP/1.1\r\nHost: ", host, "\r\nContent-Length: "} {
		_, _ = w.WriteString(part)
	}
	_, _ = w.Write(strconv.AppendInt(w.AvailableBuffer(), r.ContentLength, 10))
	_, _ = w.WriteString("\r\n")
	if err := r.Header.Write(w); err != nil {
		return err
	}
	_, _ = w.WriteString("\r\n")
	if r.Body != nil {
		n, err := io.Copy(w, r.Body)
		if err == nil && n != r.ContentLength {
			err = errors.New("h1: the body of the request has another length than announced")
		}
		if err != nil {
			return err
		}
	}
	return w.Flush()
}

func (c *conn) readResponse(r *http.Request) (*http.Response, error) {
	c.header = c.transport.options.MaxHeaderBytes
	for range maxInformational {
		response, err := http.ReadResponse(c.reader, r)
		if err != nil {
			return nil, err
		}
		if response.StatusCode >= http.StatusOK || response.StatusCode == http.StatusSwitchingProtocols {
			c.header = -1
			return response, nil
		}
	}
	return nil, errors.New("too many informational responses")
}

// body is the body of a response. Its end or Close gives the connection back.
type body struct {
	io.ReadCloser
	conn    *conn
	stop    func() bool
	written chan error
	end     bool // all of it was read
	reuse   bool // the peer keeps the connection
	closed  bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.end = true
	}
	return n, err
}

// Close implements io.Closer. Closing twice is no error.
func (b *body) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	quiet := b.stop()
	if !quiet || !b.end || !b.reuse || !b.sent() || b.conn.reader.Buffered() > 0 {
		b.conn.discard()
		return nil
	}
	b.conn.transport.put(b.conn)
	return nil
}

// sent waits until the request is written. A peer that answers before it has read
// the request may never read it.
func (b *body) sent() bool {
	if b.written == nil {
		return true
	}
	select {
	case err := <-b.written:
		return err == nil
	default:
	}
	_ = b.conn.raw.SetWriteDeadline(time.Now().Add(writeGrace))
	if err := <-b.written; err != nil {
		return false
	}
	return b.conn.raw.SetWriteDeadline(time.Time{}) == nil
}
