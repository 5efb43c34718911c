package testenv

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/slipway-dev/slipway/internal/testenv/level"
)

// ErrCrashed is returned by every call of a client whose process was killed.
var ErrCrashed = errors.New("the manager was killed")

// Crash decides when a process is killed: right after its write number After,
// counted from 1. Zero never kills it.
type Crash struct {
	After  int
	writes atomic.Int64
}

// Crashed says whether the process was killed.
func (c *Crash) Crashed() bool { return c.After > 0 && c.Writes() >= c.After }

// Writes is the number of writes that reached the API server.
func (c *Crash) Writes() int { return int(c.writes.Load()) }

// KilledAtEachWrite plays a story in which nobody is killed and that takes at least so
// many writes, and then one for each of the writes that kills: all of them, or a sample.
func KilledAtEachWrite(t *testing.T, least int, story func(t *testing.T, crash *Crash)) {
	t.Helper()
	Skip(t)
	undisturbed := &Crash{}
	if !t.Run("never", func(t *testing.T) { story(t, undisturbed) }) {
		return
	}
	if undisturbed.Writes() < least {
		t.Errorf("%d writes, want at least %d: the test does not see them", undisturbed.Writes(), least)
	}
	for _, after := range level.Cases(undisturbed.Writes()) {
		crash := &Crash{After: after}
		t.Run(fmt.Sprintf("write %d", after), func(t *testing.T) { story(t, crash) })
		if !crash.Crashed() {
			t.Errorf("write %d never came", after)
		}
	}
}

// NewCrashing returns a client whose process dies as told: the write that kills it
// takes effect, but its caller never learns of it.
func NewCrashing(inner client.WithWatch, crash *Crash) client.WithWatch {
	write := func(do func() error) error {
		if crash.Crashed() {
			return ErrCrashed
		}
		err := do()
		if err == nil {
			crash.writes.Add(1)
		}
		if crash.Crashed() {
			return ErrCrashed
		}
		return err
	}
	return interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if crash.Crashed() {
				return ErrCrashed
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return write(func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return write(func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write(func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return write(func() error { return c.Apply(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, obj, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			return write(func() error { return c.SubResource(name).Update(ctx, obj, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return write(func() error { return c.SubResource(name).Patch(ctx, obj, patch, opts...) })
		},
		SubResourceApply: func(ctx context.Context, c client.Client, name string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			return write(func() error { return c.SubResource(name).Apply(ctx, obj, opts...) })
		},
	})
}
