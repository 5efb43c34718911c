package hostmachinepool

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=kubeadmconfigs,verbs=get

// followTimeout is how long a Secret may lag behind its config. The kubeadm bootstrap
// provider writes it anew with each token, of which it makes one when half of the life
// of the last is over; it looks three times within a life, which is 15 minutes.
const followTimeout = 20 * time.Minute

// outOfDateUntil compares the bootstrap data with the config it is made from. A
// ClusterClass changes config and version of a pool at the same time, but the Secret
// follows minutes later: a rollout in between would have to begin anew. It is zero
// for a config that the Secret followed, and of another bootstrap provider.
func (r *Reconciler) outOfDateUntil(ctx context.Context, s *scope, secret *corev1.Secret) (time.Time, error) {
	ref := s.machinePool.Spec.Template.Spec.Bootstrap.ConfigRef
	if ref.APIGroup != bootstrapv1.GroupVersion.Group || ref.Kind != "KubeadmConfig" {
		return time.Time{}, nil
	}
	config := &metav1.PartialObjectMetadata{}
	config.SetGroupVersionKind(bootstrapv1.GroupVersion.WithKind(ref.Kind))
	if err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: s.pool.Namespace, Name: ref.Name}, config); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return time.Time{}, nil
		}
		return time.Time{}, fmt.Errorf("get KubeadmConfig %s: %w", ref.Name, err)
	}
	made, makers := time.Time{}, map[string]bool{}
	for _, entry := range secret.ManagedFields {
		makers[entry.Manager] = true
		made = later(made, entry.Time)
	}
	changed := time.Time{}
	for _, entry := range config.ManagedFields {
		// The maker of the Secret writes the token into the spec, too.
		if !makers[entry.Manager] && entry.Subresource == "" && entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:spec"`) {
			changed = later(changed, entry.Time)
		}
	}
	if !changed.After(made) {
		return time.Time{}, nil
	}
	return changed.Add(followTimeout), nil
}

func later(t time.Time, other *metav1.Time) time.Time {
	if other == nil || other.Time.Before(t) {
		return t
	}
	return other.Time
}
