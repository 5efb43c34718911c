package change_test

import (
	"context"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// Who changes an object between the look at it and the change does not undo the change, nor loses theirs.
func TestAChangeIsMadeAfterAConflict(t *testing.T) {
	testenv.Skip(t)
	h := &infrav1.Host{}
	h.Namespace, h.Name = env.Namespace(t), "h"
	if err := env.Client.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	attempts := 0
	base, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	c := interceptor.NewClient(base, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		if attempts++; attempts == 1 {
			other := &infrav1.Host{}
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(o), other); err != nil {
				return err
			}
			other.Spec.FailureDomain = "rack-2"
			if err := env.Client.Update(ctx, other); err != nil {
				return err
			}
		}
		return c.Patch(ctx, o, p, opts...)
	}})
	got := &infrav1.Host{}
	if err := change.Live(t.Context(), c, client.ObjectKeyFromObject(h), got, func() error { return change.Cordon(t.Context(), c, got, "fan") }); err != nil {
		t.Fatal(err)
	}
	now := &infrav1.Host{}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(h), now); err != nil {
		t.Fatal(err)
	}
	if attempts != 2 || !ptr.Deref(now.Spec.Unschedulable, false) || now.Spec.FailureDomain != "rack-2" || now.Annotations[infrav1.MaintenanceReasonAnnotation] != "fan" {
		t.Errorf("after %d attempts: %+v, %v", attempts, now.Spec, now.Annotations)
	}
}
