package bundleserver_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/test/fakehost/bundlesource"
)

func shortSum(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:8]
}

// installedFromDirectory is what a host looks like that had the bundle by hand.
func installedFromDirectory(t *testing.T, w *world, versions ...string) string {
	t.Helper()
	h := machine(t)
	for _, version := range versions {
		d, err := hostbundle.OpenDirectory(w.store.Dir)
		if err != nil {
			t.Fatal(err)
		}
		b, err := d.Bundle(version, runtime.GOARCH, w.keys)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Install(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	return tree(t, h)
}

// A host that fetches has what one has that was given the directory. The version beside it
// takes only what the host lacks, and nothing of the fetching stays.
func TestFetch(t *testing.T) {
	w := newWorld(t).loaded()
	h := machine(t)
	before := tree(t, h)
	version, err := h.Fetch(t.Context(), software.Wanted{}, w.keys, w.source("host-1"))
	if err != nil || version != newer {
		t.Fatalf("fetched %q: %v", version, err)
	}
	cold := w.sent()
	if cold < 2*layerSize || cold > 2*layerSize+64<<10 {
		t.Errorf("%d bytes were sent for two components of %d", cold, layerSize)
	}
	if _, err := h.Fetch(t.Context(), software.Wanted{Version: older}, w.keys, w.source("host-1")); err != nil {
		t.Fatal(err)
	}
	if second := w.sent() - cold; second < layerSize || second > layerSize+64<<10 {
		t.Errorf("%d bytes were sent for the one component of %d that the host lacked", second, layerSize)
	}
	if got, want := tree(t, h), installedFromDirectory(t, w, newer, older); got != want {
		t.Errorf("have:\n%s\nwant:\n%s", got, want)
	}
	if _, err := h.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, h); got != before {
		t.Errorf("after the uninstall:\n%s\nwant:\n%s", got, before)
	}
}

// cutter passes connections on and cuts each after so many bytes to the client.
type cutter struct {
	listener net.Listener
	to       string
	after    int64
	cuts     atomic.Int64
}

func cutting(t *testing.T, to string, after int64) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, to: to, after: after}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.pass(client)
		}
	}()
	return c
}

func (c *cutter) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, client) }()
	if n, _ := io.CopyN(client, server, c.after); n == c.after {
		c.cuts.Add(1)
	}
}

// A network that cuts every connection costs time, not bytes: each goes on where the last
// one was.
func TestFetchThroughCuts(t *testing.T) {
	w := newWorld(t).loaded()
	c := cutting(t, w.address, 300<<10)
	h := machine(t)
	if _, err := h.Fetch(t.Context(), software.Wanted{Version: newer}, w.keys, w.source("host-1", c.listener.Addr().String())); err != nil {
		t.Fatal(err)
	}
	if c.cuts.Load() < 6 {
		t.Errorf("%d cuts; the test cut nothing", c.cuts.Load())
	}
	// What is under way in buffers when a connection is cut was sent in vain.
	if received := c.cuts.Load() * c.after; received > 3*layerSize {
		t.Errorf("%d bytes came through for %d", received, 2*layerSize)
	}
	if got, want := tree(t, h), installedFromDirectory(t, w, newer); got != want {
		t.Errorf("have:\n%s\nwant:\n%s", got, want)
	}
}

// A fetch that is interrupted at any moment is ended by the same command, and what came is
// not fetched again; or by an uninstall, which leaves nothing.
func TestFetchInterrupted(t *testing.T) {
	w := newWorld(t).loaded()
	h, given := machine(t), machine(t)
	before := tree(t, given)
	interruptions := 0
	for done := false; !done; interruptions++ {
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		h.Fetching = func(hostbundle.Component, int64, int64) {
			if seen++; seen == 10 {
				cancel()
			}
		}
		given.Fetching = h.Fetching
		_, err := h.Fetch(ctx, software.Wanted{Version: newer}, w.keys, w.source("host-1"))
		cancel()
		switch {
		case err == nil:
			done = true
		case !errors.Is(err, context.Canceled):
			t.Fatal(err)
		}
	}
	if interruptions < 3 {
		t.Errorf("%d interruptions", interruptions)
	}
	if sent := w.sent(); sent > 8*layerSize {
		t.Errorf("%d bytes were sent for %d", sent, 2*layerSize)
	}
	if got, want := tree(t, h), installedFromDirectory(t, w, newer); got != want {
		t.Errorf("have:\n%s\nwant:\n%s", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	given.Fetching = func(hostbundle.Component, int64, int64) { cancel() }
	if _, err := given.Fetch(ctx, software.Wanted{Version: newer}, w.keys, w.source("host-1")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if tree(t, given) == before {
		t.Fatal("nothing was fetched")
	}
	if _, err := given.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, given); got != before {
		t.Errorf("after the uninstall:\n%s", got)
	}
}

// What was torn by a power cut is noticed, and fetched anew.
func TestFetchAfterATornWrite(t *testing.T) {
	w := newWorld(t).loaded()
	h := machine(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.Fetching = func(_ hostbundle.Component, have, _ int64) {
		if have > layerSize/2 {
			cancel()
		}
	}
	if _, err := h.Fetch(ctx, software.Wanted{Version: newer}, w.keys, w.source("host-1")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	parts, err := filepath.Glob(h.Root.Path("/var/lib/slipway-software.fetched/blobs/sha256/*.part"))
	if err != nil || len(parts) != 1 {
		t.Fatalf("parts %v: %v", parts, err)
	}
	f, err := os.OpenFile(parts[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 4096), layerSize/4); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	h.Fetching = nil
	if _, err := h.Fetch(t.Context(), software.Wanted{Version: newer}, w.keys, w.source("host-1")); err != nil {
		t.Fatal(err)
	}
	if got, want := tree(t, h), installedFromDirectory(t, w, newer); got != want {
		t.Errorf("have:\n%s\nwant:\n%s", got, want)
	}
}

// tamper changes one byte of the largest blob of a store.
func tamper(t *testing.T, dir string) {
	t.Helper()
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var largest string
	var size int64
	for _, blob := range blobs {
		info, err := os.Stat(blob)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > size {
			largest, size = blob, info.Size()
		}
	}
	f, err := os.OpenFile(largest, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("evil"), size/2); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// A server that lies about content gets nothing onto a host, and a mirror that does not
// is asked next.
func TestALyingServer(t *testing.T) {
	w := newWorld(t)
	dir := w.layout(runtime.GOARCH, w.signer)
	w.load(dir, newer)
	tamper(t, w.store.Dir)
	h := machine(t)
	_, err := h.Fetch(t.Context(), software.Wanted{Version: newer}, w.keys, w.source("host-1"))
	if reasonOf(err) != hostbundle.ReasonCorrupt {
		t.Errorf("err = %v", err)
	}
	if installed, err := h.Installed(); err != nil || len(installed) > 0 {
		t.Errorf("installed %v, %v", installed, err)
	}
	if found := tree(t, h); strings.Contains(found, "/opt/slipway") {
		t.Errorf("on the host:\n%s", found)
	}
	honest := newWorld(t)
	honest.load(dir)
	if _, err := h.Fetch(t.Context(), software.Wanted{Version: newer}, w.keys, w.source("host-1"), honest.source("host-1")); err != nil {
		t.Error(err)
	}
	if got, want := tree(t, h), installedFromDirectory(t, &world{store: honest.store, keys: w.keys}, newer); got != want {
		t.Errorf("have:\n%s\nwant:\n%s", got, want)
	}
}

// What a host cannot trust or use is refused before its content is fetched.
func TestFetchRefuses(t *testing.T) {
	foreign := newWorld(t)
	signer, _, _ := bundlesource.NewKeys(t)
	foreign.load(foreign.layout(runtime.GOARCH, signer))
	other := newWorld(t)
	other.load(other.layout("riscv64", other.signer))
	good := newWorld(t).loaded()
	for name, tt := range map[string]struct {
		w       *world
		version string
		want    hostbundle.Reason
		text    string
	}{
		"another key":          {foreign, newer, hostbundle.ReasonUntrusted, "no signature"},
		"another architecture": {other, newer, hostbundle.ReasonWrongArchitecture, "riscv64"},
		"another version":      {good, "v1.30.0", hostbundle.ReasonNotFound, older + ", " + newer},
		"no version":           {newWorld(t), "", hostbundle.ReasonNotFound, "no bundle of any"},
	} {
		t.Run(name, func(t *testing.T) {
			h := machine(t)
			was := tree(t, h)
			_, err := h.Fetch(t.Context(), software.Wanted{Version: tt.version}, tt.w.keys, tt.w.source("host-1"))
			if reasonOf(err) != tt.want || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("err = %v", err)
			}
			if sent := tt.w.sent(); sent > 64<<10 {
				t.Errorf("%d bytes were sent", sent)
			}
			if got := tree(t, h); got != was {
				t.Errorf("on the host:\n%s", got)
			}
		})
	}
	t.Run("a foreign runtime", func(t *testing.T) {
		h := machine(t)
		if err := os.MkdirAll(h.Root.Path("/etc/systemd/system/multi-user.target.wants"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(h.Root.Path("/etc/systemd/system/multi-user.target.wants/docker.service"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		before, was := good.sent(), tree(t, h)
		_, err := h.Fetch(t.Context(), software.Wanted{Version: newer}, good.keys, good.source("host-1"))
		var refused *software.Error
		if !errors.As(err, &refused) || refused.Reason != software.ReasonForeign {
			t.Errorf("err = %v", err)
		}
		if sent := good.sent() - before; sent > 64<<10 {
			t.Errorf("%d bytes were sent", sent)
		}
		if got := tree(t, h); got != was {
			t.Errorf("on the host:\n%s", got)
		}
	})
}
