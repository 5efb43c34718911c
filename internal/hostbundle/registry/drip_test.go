package registry

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// dripping is a network in which a server answers immediately and then sends one byte after the other.
type dripping struct {
	status int
	each   time.Duration
	size   int64
	// cut ends each answer after a byte.
	cut bool
}

func (d dripping) Do(r *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {ocispec.MediaTypeImageIndex}, "Docker-Content-Digest": {digest.FromString("what is never whole").String()}}
	status := d.status
	var from int64
	if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); n == 1 && status == http.StatusOK {
		status = http.StatusPartialContent
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, d.size-1, d.size))
	}
	return &http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: &drips{ctx: r.Context(), each: d.each, cut: d.cut}, ContentLength: d.size, Request: r}, nil
}

type drips struct {
	ctx       context.Context
	each      time.Duration
	cut, sent bool
}

func (d *drips) Read(p []byte) (int, error) {
	if d.cut && d.sent {
		return 0, io.ErrUnexpectedEOF
	}
	var next <-chan time.Time
	if d.each > 0 {
		next = time.After(d.each)
	}
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-next:
		p[0], d.sent = ' ', true
		return 1, nil
	}
}

func (*drips) Close() error { return nil }

// A source that sends a byte now and then, or none, is given up: an operation waits meanwhile, and
// there may be another source. An hour is more than the least rate allows for a MiB.
func TestNoSourceDripsForEver(t *testing.T) {
	const size, limit = 1 << 20, time.Hour
	for name, network := range map[string]dripping{
		"a byte every 30 seconds":     {http.StatusOK, 30 * time.Second, size, false},
		"a byte every millisecond":    {http.StatusOK, time.Millisecond, size, false},
		"a byte for each request":     {http.StatusOK, time.Millisecond, size, true},
		"nothing at all":              {http.StatusOK, 0, size, false},
		"an error that does not end":  {http.StatusInternalServerError, 0, size, false},
		"it is busy for ever":         {http.StatusServiceUnavailable, time.Millisecond, 1, false},
		"too many requests for ever":  {http.StatusTooManyRequests, time.Millisecond, 1, false},
		"a refusal that does not end": {http.StatusForbidden, 30 * time.Second, size, false},
	} {
		for what, ask := range map[string]func(context.Context, *Repository, hostbundle.Staging) error{
			"content": func(ctx context.Context, r *Repository, s hostbundle.Staging) error {
				return r.Blob(ctx, s, ocispec.Descriptor{Digest: digest.FromString("x"), Size: size}, nil)
			},
			"what describes a bundle": func(ctx context.Context, r *Repository, s hostbundle.Staging) error {
				return r.Stage(ctx, s, "v1.36.3", runtime.GOARCH)
			},
			"the list of versions": func(ctx context.Context, r *Repository, _ hostbundle.Staging) error {
				_, err := r.Versions(ctx)
				return err
			},
		} {
			t.Run(what+", "+name, func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					r, err := New(Options{Address: "oci://registry.example.com/host-bundles", Hasty: true})
					if err != nil {
						t.Fatal(err)
					}
					r.client, r.remote.Client = network, network
					s := hostbundle.Staging{Dir: dir}
					if err := s.Begin(); err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					defer cancel()
					if err := ask(ctx, r, s); ctx.Err() != nil || err == nil {
						t.Errorf("after %s of the clock: %v", limit, err)
					}
				})
			})
		}
	}
}

// A server that has the pages of a list follow each other sends no more than one description may have.
func TestAListHasAnEnd(t *testing.T) {
	var sent atomic.Int64
	page := []byte(`{"name":"host-bundles","tags":["` + strings.Repeat("x", 1<<20) + `"]}`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", `</v2/host-bundles/tags/list?last=x>; rel="next"`)
		sent.Add(int64(len(page)))
		_, _ = w.Write(page)
	}))
	defer server.Close()
	_, err := at(t, server).Versions(t.Context())
	if reason(err) != hostbundle.ReasonCorrupt || sent.Load() > maxDescription+int64(len(page)) {
		t.Errorf("%d bytes were sent: %.200v", sent.Load(), err)
	}
}
