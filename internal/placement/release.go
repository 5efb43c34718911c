package placement

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// ReleaseOf is the KubernetesRelease of a version; nil when there is none. From a cache it
// is the cache's own object: it must not be changed.
func ReleaseOf(ctx context.Context, c client.Reader, version string) (*infrav1.KubernetesReleaseSpec, error) {
	if version == "" {
		return nil, nil
	}
	release := &infrav1.KubernetesRelease{}
	if err := c.Get(ctx, client.ObjectKey{Name: version}, release); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("get KubernetesRelease %s: %w", version, err)
	}
	return &release.Spec, nil
}
