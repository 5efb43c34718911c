package runtime

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// attacker sends a server what no caller should.
type attacker struct {
	t       *testing.T
	address string
	config  *tls.Config
}

func newAttacker(t *testing.T, address string, ca *hooktest.CA) *attacker {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM)
	return &attacker{t: t, address: address, config: &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}}
}

func patchPath() string { return hook.Path(capi.GeneratePatches.Definition().Name, "patch") }

// open starts a request with a header; its body is up to the caller.
func (a *attacker) open(header string) net.Conn {
	a.t.Helper()
	conn, err := tls.Dial("tcp", a.address, a.config)
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", patchPath(), header); err != nil {
		a.t.Fatal(err)
	}
	return conn
}

// crowd is how many hostile peers there are at a time.
func crowd() int {
	if *measure {
		return 8
	}
	return 3
}

// flood runs n attacks at a time and waits for all of them.
func flood(n int, attack func()) {
	var attacks sync.WaitGroup
	for range n {
		attacks.Go(attack)
	}
	attacks.Wait()
}

var block = bytes.Repeat([]byte("a"), 1<<20)

// endless sends chunks until the server closes the connection.
func (a *attacker) endless() {
	conn := a.open("Transfer-Encoding: chunked")
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	_, err := io.WriteString(conn, "d\r\n{\"settings\":\"\r\n")
	for sent := 0; err == nil && sent < 256; sent++ {
		_, err = fmt.Fprintf(conn, "%x\r\n%s\r\n", len(block), block)
	}
	if err == nil {
		a.t.Error("256 MiB of an endless request were taken")
	}
}

// announced sends 64 MiB as announced.
func (a *attacker) announced() {
	conn := a.open("Content-Length: 67108864")
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	for range 64 {
		if _, err := conn.Write(block); err != nil {
			return
		}
	}
}

// gzipBomb sends what would be 256 MiB.
func (a *attacker) gzipBomb() {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 256 {
		_, _ = z.Write(block)
	}
	_ = z.Close()
	conn := a.open(fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d", bomb.Len()))
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = conn.Write(bomb.Bytes())
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
}

// valid sends a request of 19 MiB that is what it should be, and returns the
// HTTP status.
func (a *attacker) valid(body []byte) {
	transport := &http.Transport{TLSClientConfig: a.config, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: 60 * time.Second}).Post("https://"+a.address+patchPath(), "application/json", bytes.NewReader(body)) //nolint:noctx // bounded by the timeout
	if err != nil {
		// The server may have closed the connection while the request was sent.
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
}

// stall sends 19 of 20 MiB on each of n connections and then nothing. It returns
// how many connections the server had closed after the patience.
func (a *attacker) stall(n int, patience time.Duration) int {
	a.t.Helper()
	end := time.Now().Add(patience)
	closed := make([]bool, n)
	var connections sync.WaitGroup
	for i := range n {
		conn := a.open("Content-Length: 20971520")
		connections.Go(func() {
			defer conn.Close()
			_ = conn.SetDeadline(end)
			for range 19 {
				if _, err := conn.Write(block); err != nil {
					closed[i] = !isTimeout(err)
					return
				}
			}
			_, err := io.Copy(io.Discard, conn)
			closed[i] = !isTimeout(err)
		})
	}
	connections.Wait()
	count := 0
	for _, c := range closed {
		if c {
			count++
		}
	}
	return count
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// many is a request with n items that are three bytes on the wire and a hundred
// times that in memory.
func many(n int) []byte {
	return []byte(`{"items":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + `]}`)
}
