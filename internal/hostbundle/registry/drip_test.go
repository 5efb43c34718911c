package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// dripping is a network in which a server answers immediately and then sends one byte after the other.
type dripping struct {
	status int
	each   time.Duration
	size   int64
	// cut ends each answer after a byte, or after as many as burst.
	cut   bool
	burst int
	// restart answers a request for a range with all of the content, of which it sends nothing.
	restart bool
}

func (d dripping) Do(r *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {ocispec.MediaTypeImageIndex}, "Docker-Content-Digest": {digest.FromString("what is never whole").String()}}
	status := d.status
	burst := d.burst
	var from int64
	if d.restart && r.Header.Get("Range") != "" {
		burst = 0
	} else if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); n == 1 && status == http.StatusOK {
		status = http.StatusPartialContent
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, d.size-1, d.size))
	}
	return &http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: &drips{ctx: r.Context(), each: d.each, cut: d.cut, burst: burst}, ContentLength: d.size, Request: r}, nil
}

type drips struct {
	ctx       context.Context
	each      time.Duration
	cut, sent bool
	burst     int
}

func (d *drips) Read(p []byte) (int, error) {
	switch {
	case d.burst > 0:
		n := min(d.burst, len(p))
		d.burst, d.sent = d.burst-n, true
		return n, nil
	case d.cut && d.sent:
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

// justInTime is a network with signatures of strangers, each document of which comes when it is almost too late.
type justInTime struct{}

func (justInTime) Do(r *http.Request) (*http.Response, error) {
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(smallTimeout - time.Second):
	}
	index, note := []byte("{}"), []byte("a stranger's")
	subject := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex, Digest: digest.FromBytes(index), Size: int64(len(index))}
	body, mediaType := note, ocispec.MediaTypeImageManifest
	switch at := path.Base(r.URL.Path); {
	case strings.Contains(r.URL.Path, "/referrers/"):
		mediaType = ocispec.MediaTypeImageIndex
		var all ocispec.Index
		for i := range maxSignatures {
			d := digest.FromBytes(stranger(subject, i, note))
			all.Manifests = append(all.Manifests, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: hostbundle.SignatureType, Digest: d, Size: 1})
		}
		var err error
		if body, err = json.Marshal(all); err != nil {
			return nil, err
		}
	case strings.Contains(r.URL.Path, "/manifests/"):
		body, mediaType = index, ocispec.MediaTypeImageIndex
		for i := range maxSignatures {
			if m := stranger(subject, i, note); digest.FromBytes(m).String() == at {
				body, mediaType = m, ocispec.MediaTypeImageManifest
			}
		}
	}
	header := http.Header{"Content-Type": {mediaType}, "Docker-Content-Digest": {digest.FromBytes(body).String()}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r}, nil
}

func stranger(subject ocispec.Descriptor, i int, note []byte) []byte {
	layer := ocispec.Descriptor{MediaType: "text/plain", Digest: digest.FromBytes(note), Size: int64(len(note))}
	data, err := json.Marshal(ocispec.Manifest{Subject: &subject, Layers: []ocispec.Descriptor{layer}, Annotations: map[string]string{"n": strconv.Itoa(i)}})
	if err != nil {
		panic(err)
	}
	return data
}

// A source that sends a byte now and then, or none, is given up: an operation waits meanwhile, and
// there may be another source. An hour is more than the least rate allows for a MiB.
func TestNoSourceDripsForEver(t *testing.T) {
	const size, limit = 1 << 20, time.Hour
	for name, network := range map[string]remote.Client{
		"a byte every 30 seconds":              dripping{status: http.StatusOK, each: 30 * time.Second, size: size},
		"a byte every millisecond":             dripping{status: http.StatusOK, each: time.Millisecond, size: size},
		"a byte for each request":              dripping{status: http.StatusOK, each: time.Millisecond, size: size, cut: true},
		"nothing at all":                       dripping{status: http.StatusOK, size: size},
		"an error that does not end":           dripping{status: http.StatusInternalServerError, size: size},
		"it is busy for ever":                  dripping{status: http.StatusServiceUnavailable, each: time.Millisecond, size: 1},
		"too many requests for ever":           dripping{status: http.StatusTooManyRequests, each: time.Millisecond, size: 1},
		"a refusal that does not end":          dripping{status: http.StatusForbidden, each: 30 * time.Second, size: size},
		"the first half again and again":       dripping{status: http.StatusOK, size: size, cut: true, burst: size / 2, restart: true},
		"each answer just before its deadline": justInTime{},
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

// A mirror says how large a file is before anything tells that it is the right one.
func TestAFileHasAnEnd(t *testing.T) {
	for length, want := range map[string]hostbundle.Reason{"1000": "", "1099511627776": hostbundle.ReasonCorrupt} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", length) }))
		f, err := NewFile(Options{Address: server.URL + "/kubelet", Hasty: true})
		if err != nil {
			t.Fatal(err)
		}
		if size, err := f.Size(t.Context()); reason(err) != want || (err != nil) != (want != "") {
			t.Errorf("%s bytes: %d, %v", length, size, err)
		}
		server.Close()
	}
}
