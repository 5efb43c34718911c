package hooks

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// Warm has the cache filled with what handlers read before the first call comes.
func Warm(ctx context.Context, c cache.Cache) error {
	for _, object := range []client.Object{&lifecyclev1.LifecyclePolicy{}, &lifecyclev1.LifecycleRun{}} {
		if _, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
	}
	return nil
}
