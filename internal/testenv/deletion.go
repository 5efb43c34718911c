package testenv

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// DeletionCaches are two caches of a controller over a client, by name: one that is up to date,
// and one that has yet to learn of any deletion.
func DeletionCaches(c client.WithWatch) map[string]client.Client {
	return map[string]client.Client{
		"shown by the cache": c,
		"the cache is behind": interceptor.NewClient(c, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				err := c.Get(ctx, key, o, opts...)
				o.SetDeletionTimestamp(nil)
				return err
			},
		}),
	}
}

// heldUp is a finalizer that keeps an object while it is being deleted, as a lifecycle policy,
// a drain hook or core does.
const heldUp = "example.com/held-up"

// DeleteHeldUp deletes an object that a finalizer keeps, and reads it as it is then.
func DeleteHeldUp(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	ctx, key := t.Context(), client.ObjectKeyFromObject(o)
	if err := c.Get(ctx, key, o); err != nil {
		t.Fatal(err)
	}
	o.SetFinalizers(append(o.GetFinalizers(), heldUp))
	if err := c.Update(ctx, o); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(ctx, o); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(ctx, key, o); err != nil || o.GetDeletionTimestamp().IsZero() {
		t.Fatalf("it is not being deleted: %v, %v", o.GetDeletionTimestamp(), err)
	}
}
