package kube

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/slipway-dev/slipway/sdk/listener"
)

// TestHandshakesEnd holds that a connection without a byte is closed after the time of a handshake, whatever time the
// server gives it, and that this time is over with the handshake.
func TestHandshakesEnd(t *testing.T) {
	certificates := httptest.NewTLSServer(nil)
	certificates.Close()
	synctest.Test(t, func(t *testing.T) {
		accepts := make(pipes)
		server := &http.Server{ReadHeaderTimeout: time.Minute, IdleTimeout: time.Minute, Handler: http.NotFoundHandler(), TLSConfig: certificates.TLS}
		served := make(chan error, 1)
		go func() { served <- server.ServeTLS(handshakes{accepts}, "", "") }()
		silent, slow := accepts.dial(), tls.Client(accepts.dial(), &tls.Config{InsecureSkipVerify: true})
		began := time.Now()
		if err := slow.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, silent)
		if took := time.Since(began); took != listener.HandshakeTimeout {
			t.Errorf("the silent connection was closed after %s", took)
		}
		time.Sleep(listener.HandshakeTimeout)
		if err := get(slow, "/"); err != nil {
			t.Error(err)
		}
		if err := errors.Join(slow.Close(), server.Close()); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// TestOnlyAuthenticatedClientsAreIdentified has a client that was authenticated and one that was not, and a connection
// more than there may be without identity.
func TestOnlyAuthenticatedClientsAreIdentified(t *testing.T) {
	users := map[string]user.Info{
		"/admin":     &user.DefaultInfo{Name: "admin", Groups: []string{"admins", user.AllAuthenticated}},
		"/anonymous": &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}},
	}
	handler := identifying(http.NotFoundHandler())
	server := &http.Server{ReadHeaderTimeout: time.Minute, IdleTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, ok := users[r.URL.Path]; ok {
			r = r.WithContext(request.WithUser(r.Context(), u))
		}
		handler.ServeHTTP(w, r)
	})}
	synctest.Test(t, func(t *testing.T) {
		accepts := make(pipes)
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener.New(accepts, listener.Options{Anonymous: 2})) }()
		conns := map[string]net.Conn{}
		for _, path := range []string{"/admin", "/anonymous", "/nobody", "/last"} {
			time.Sleep(time.Millisecond)
			conns[path] = accepts.dial()
			if err := get(conns[path], path); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			synctest.Wait()
		}
		for path, c := range conns {
			_ = c.SetReadDeadline(time.Now()) // a pipe that is closed has no deadlines
			_, err := c.Read(make([]byte, 1))
			if open := errors.Is(err, os.ErrDeadlineExceeded); open != (path != "/anonymous") {
				t.Errorf("the connection of %s: open: %t", path, open)
			}
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

func get(c net.Conn, path string) error {
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: plane\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

// pipes is a listener in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error { close(p); return nil }

func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial() net.Conn {
	client, server := net.Pipe()
	p <- server
	return client
}
