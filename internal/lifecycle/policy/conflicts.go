package policy

import (
	"context"
	"fmt"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/match"
	"github.com/slipway-dev/slipway/internal/lifecycle/schedule"
)

// horizon is how far ahead windows are compared, from when both have opened once: windows
// that meet less than once a year hold clusters back for longer than anybody means.
const horizon = 366 * 24 * time.Hour

// findConflicts looks for windows that are never open at the same time. A hook passes
// only while all windows are open, so such policies hold their clusters back for ever.
func (r *Reconciler) findConflicts(ctx context.Context, s *scope) error {
	if s.fault != nil || s.policy.Spec.Mode == lifecyclev1.ModeAudit {
		return nil
	}
	policies := &lifecyclev1.LifecyclePolicyList{}
	if err := r.Client.List(ctx, policies, client.InNamespace(s.policy.Namespace)); err != nil {
		return fmt.Errorf("list LifecyclePolicies: %w", err)
	}
	now := r.Clock.Now()
	for i := range policies.Items {
		other := &policies.Items[i]
		if message := Conflict(s.policy, other, s.clusters, now); message != "" {
			s.fault = &fault{lifecyclev1.PolicyConflictReason, message}
			return nil
		}
	}
	return nil
}

// Conflict tells of a hook at which two policies, which may be one and the same, have
// windows that never overlap, if one of the clusters is selected by both, or there are
// none yet. It is empty when there is no such hook. Policies that cannot be read
// conflict with nothing.
func Conflict(a, b *lifecyclev1.LifecyclePolicy, clusters []clusterv1.Cluster, now time.Time) string {
	if b.Spec.Mode == lifecyclev1.ModeAudit || !b.DeletionTimestamp.IsZero() || !meet(a, b, clusters) {
		return ""
	}
	for i := range a.Spec.Hooks {
		hook := a.Spec.Hooks[i].Hook
		for _, one := range windows(a.Spec.Hooks[i].Steps) {
			for _, another := range windows(b.Steps(hook)) {
				if !schedule.Overlap(one.window, another.window, now, horizon) {
					return fmt.Sprintf("%s: the window of step %s is never open at the same time as that of step %s of LifecyclePolicy %s, so the hook never passes; change one of them",
						hook, one.step, another.step, b.Name)
				}
			}
		}
	}
	return ""
}

type namedWindow struct {
	step   string
	window *schedule.Window
}

func windows(steps []lifecyclev1.Step) []namedWindow {
	var found []namedWindow
	for i := range steps {
		if steps[i].Window == nil {
			continue
		}
		if window, err := schedule.Parse(*steps[i].Window); err == nil {
			found = append(found, namedWindow{steps[i].Name, window})
		}
	}
	return found
}

// meet says whether two policies select a cluster in common, as far as labels tell.
func meet(a, b *lifecyclev1.LifecyclePolicy, clusters []clusterv1.Cluster) bool {
	if a.Name == b.Name || len(clusters) == 0 {
		return true
	}
	for i := range clusters {
		selectedByA, errA := match.Selects(a, &clusters[i])
		selectedByB, errB := match.Selects(b, &clusters[i])
		if errA == nil && errB == nil && selectedByA && selectedByB {
			return true
		}
	}
	return false
}
