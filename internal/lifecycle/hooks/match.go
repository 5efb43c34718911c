package hooks

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/match"
)

// policies returns the policies that answer the hook for the Cluster, ordered by name, those
// in mode Audit last. The errors are about the policies that cannot be evaluated; the others
// are returned beside them. One in mode Audit is left out without an error: it must not
// hold the Cluster back.
func (h *Handler) policies(ctx context.Context, reader client.Reader, e event) ([]*lifecyclev1.LifecyclePolicy, []error) {
	list := &lifecyclev1.LifecyclePolicyList{}
	// They are only read.
	if err := reader.List(ctx, list, client.InNamespace(e.cluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, []error{fmt.Errorf("list LifecyclePolicies: %w", err)}
	}
	var selected []*lifecyclev1.LifecyclePolicy
	var errs []error
	for i := range list.Items {
		policy := &list.Items[i]
		if len(policy.Steps(e.hook)) == 0 || !policy.DeletionTimestamp.IsZero() {
			continue
		}
		mismatch, err := h.matcher.Match(ctx, policy, e.cluster)
		switch {
		case err != nil && policy.Spec.Mode == lifecyclev1.ModeAudit:
			log.FromContext(ctx).Error(err, "Left out a LifecyclePolicy in mode Audit", "LifecyclePolicy", klog.KObj(policy))
		case err != nil:
			errs = append(errs, err)
		case mismatch == match.None:
			selected = append(selected, policy)
		}
	}
	slices.SortFunc(selected, func(a, b *lifecyclev1.LifecyclePolicy) int {
		return cmp.Or(cmp.Compare(audits(a), audits(b)), cmp.Compare(a.Name, b.Name))
	})
	return selected, errs
}

func audits(policy *lifecyclev1.LifecyclePolicy) int {
	if policy.Spec.Mode == lifecyclev1.ModeAudit {
		return 1
	}
	return 0
}
