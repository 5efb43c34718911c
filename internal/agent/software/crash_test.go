package software

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/powercut"
)

// change is a command whose every write is cut off once.
type change struct {
	name string
	// from are the versions that are there, to those that shall be.
	from, to []string
	do       func(ctx context.Context, h *Host, all map[string]*hostbundle.Bundle) error
}

var changes = []change{
	{"first install", nil, []string{newer}, func(ctx context.Context, h *Host, all map[string]*hostbundle.Bundle) error {
		return h.Install(ctx, all[newer])
	}},
	{"install beside another", []string{older}, []string{older, newer}, func(ctx context.Context, h *Host, all map[string]*hostbundle.Bundle) error {
		return h.Install(ctx, all[newer])
	}},
	{"uninstall one of two", []string{older, newer}, []string{older}, func(ctx context.Context, h *Host, _ map[string]*hostbundle.Bundle) error {
		_, err := h.Uninstall(ctx, newer)
		return err
	}},
	{"tidy", []string{older, newer}, []string{newer}, func(ctx context.Context, h *Host, _ map[string]*hostbundle.Bundle) error {
		_, _, err := h.Tidy(ctx, "", 1)
		return err
	}},
	{"uninstall all", []string{older, newer}, nil, func(ctx context.Context, h *Host, _ map[string]*hostbundle.Bundle) error {
		_, err := h.Uninstall(ctx)
		return err
	}},
}

// A power cut at any write: what runs afterwards is whole, the same command gets there,
// and an uninstall leaves nothing.
func TestKilledAtEveryWrite(t *testing.T) {
	dir, all := layout(t, runtime.GOARCH)
	for _, c := range append(changes, change{"first fetch", nil, []string{newer}, func(ctx context.Context, h *Host, _ map[string]*hostbundle.Bundle) error {
		_, err := h.Fetch(ctx, Wanted{Version: newer}, keysOf(t, dir), sourceOf(t, dir))
		return err
	}}) {
		t.Run(c.name, func(t *testing.T) {
			begin, before := installed(t, all, c.from...)
			done, _ := installed(t, all, c.to...)
			want := tree(t, done.Root)
			whole := clone(t, begin)
			counted := powercut.At(t, string(whole.Root), 0)
			if err := c.do(t.Context(), whole, all); err != nil {
				t.Fatal(err)
			}
			if diff := differences(tree(t, whole.Root), want); diff != "" {
				t.Fatalf("without a power cut:\n%s", diff)
			}
			count := len(counted.Changes)
			for _, n := range level.Cases(count) {
				h := clone(t, begin)
				cut := powercut.At(t, string(h.Root), n)
				if err := c.do(t.Context(), h, all); !errors.Is(err, powercut.ErrCut) {
					t.Fatalf("killed at %d of %d: %v", n, count, err)
				}
				cut.On()
				checkWhole(t, h, all, n)
				other := clone(t, h)
				if err := c.do(t.Context(), h, all); err != nil {
					t.Fatalf("killed at %d of %d, then again: %v", n, count, err)
				}
				if diff := differences(tree(t, h.Root), want); diff != "" {
					t.Fatalf("killed at %d of %d, then again:\n%s", n, count, diff)
				}
				if _, err := other.Uninstall(t.Context()); err != nil {
					t.Fatalf("killed at %d of %d, then uninstalled: %v", n, count, err)
				}
				if diff := differences(tree(t, other.Root), before); diff != "" {
					t.Fatalf("killed at %d of %d, then uninstalled:\n%s", n, count, diff)
				}
			}
		})
	}
}

// checkWhole holds that every component in the store is all there, that no link in use
// leads nowhere, and that the record knows whatever is on the host.
func checkWhole(t *testing.T, h *Host, all map[string]*hostbundle.Bundle, n int) {
	t.Helper()
	for _, b := range all {
		for _, c := range b.Components {
			path := h.Root.Path(storePath(c))
			if _, err := os.Stat(path); err != nil {
				continue
			}
			if ok, err := intact(path, c); err != nil || !ok {
				t.Fatalf("killed at %d: %s %s is in the store and not whole: %v", n, c.Name, c.Version, err)
			}
		}
	}
	record, err := readRecord(h.Root)
	if err != nil {
		t.Fatalf("killed at %d: %v", n, err)
	}
	known := map[string]bool{recordPath: true}
	for _, e := range record.Entries {
		known[e.Path] = true
	}
	for path, what := range tree(t, h.Root) {
		if !strings.HasPrefix(what, "L") || strings.Contains(path, "/.slipway-") {
			continue
		}
		if !known[path] {
			t.Fatalf("killed at %d: %s is there and not in the record", n, path)
		}
		if _, err := durable.ReadAny(string(h.Root), path, 1<<20); err != nil {
			t.Fatalf("killed at %d: %s leads nowhere: %v", n, path, err)
		}
	}
}
