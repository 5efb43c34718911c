package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/enforcement"
	"github.com/slipway-dev/slipway/internal/lifecycle/match"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

// maxNamed bounds how many Clusters a message names.
const maxNamed = 10

// WithoutTopology tells of the Clusters that a policy is about and that are held back at
// not all of its hooks, as they have no topology; empty when there are none. One of which
// that cannot be known counts.
func WithoutTopology(ctx context.Context, matcher *match.Matcher, p *lifecyclev1.LifecyclePolicy, clusters []clusterv1.Cluster) string {
	var names []string
	for i := range clusters {
		cluster := &clusters[i]
		if !slices.ContainsFunc(p.Spec.Hooks, func(h lifecyclev1.HookPolicy) bool { return !plan.Enforces(p, h.Hook, cluster) }) {
			continue
		}
		if mismatch, err := matcher.Match(ctx, p, cluster); err != nil || mismatch == match.None {
			names = append(names, cluster.Name)
		}
	}
	switch {
	case len(names) == 0:
		return ""
	case len(names) > maxNamed:
		names = append(names[:maxNamed], fmt.Sprintf("%d more", len(names)-maxNamed))
	}
	held, remedy := "nothing", "make them of a ClusterClass, or select others"
	switch {
	case !slices.ContainsFunc(p.Spec.Hooks, func(h lifecyclev1.HookPolicy) bool { return h.Hook.WithoutTopology() }):
	case p.Spec.Enforcement == lifecyclev1.EnforcementAll:
		held = "nothing but creation and deletion"
	default:
		remedy += ", or set spec.enforcement to All, which holds back creation and deletion"
	}
	return fmt.Sprintf("Cluster API calls no hooks for Clusters without spec.topology, so the policy holds %s back of %s; %s", held, strings.Join(names, ", "), remedy)
}

// NotEnabled tells what is missing for the API server to ask about Clusters without a
// topology in the namespace of a policy that wants them held back; empty when nothing is.
func NotEnabled(ctx context.Context, reader client.Reader, p *lifecyclev1.LifecyclePolicy) (string, error) {
	if p.Spec.Enforcement != lifecyclev1.EnforcementAll {
		return "", nil
	}
	enabled, err := enforcement.Enabled(ctx, reader, p.Namespace)
	if err != nil || enabled {
		return "", err
	}
	return fmt.Sprintf("spec.enforcement: Clusters without spec.topology are not held back, since the API server asks about those of labelled namespaces only: kubectl label namespace %s %s=%s",
		p.Namespace, lifecyclev1.EnforcementLabel, lifecyclev1.EnforcementAll), nil
}

// findTopologies says whether somebody asks about all that the policy is to hold back.
func (r *Reconciler) findTopologies(ctx context.Context, s *scope) error {
	effective := metav1.Condition{
		Type: lifecyclev1.EffectiveCondition, Status: metav1.ConditionTrue,
		Reason: lifecyclev1.HooksCalledReason, ObservedGeneration: s.policy.Generation,
	}
	missing, err := NotEnabled(ctx, r.APIReader, s.policy)
	switch {
	case apierrors.IsForbidden(err):
		effective.Status, effective.Reason, effective.Message = metav1.ConditionUnknown, lifecyclev1.EnforcementUnknownReason, err.Error()
	case err != nil:
		return err
	case missing != "":
		effective.Status, effective.Reason, effective.Message = metav1.ConditionFalse, lifecyclev1.EnforcementNotEnabledReason, missing
	default:
		if message := WithoutTopology(ctx, &r.matcher, s.policy, s.clusters); message != "" {
			effective.Status, effective.Reason, effective.Message = metav1.ConditionFalse, lifecyclev1.ClusterWithoutTopologyReason, message
		}
	}
	s.effective = effective
	return ctx.Err()
}
