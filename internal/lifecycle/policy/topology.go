package policy

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/match"
)

// maxNamed bounds how many Clusters a message names.
const maxNamed = 10

// WithoutTopology tells of the Clusters that a policy is about and that Cluster API calls
// no hooks for; empty when there are none. One of which that cannot be known counts.
func WithoutTopology(ctx context.Context, matcher *match.Matcher, p *lifecyclev1.LifecyclePolicy, clusters []clusterv1.Cluster) string {
	var names []string
	for i := range clusters {
		cluster := &clusters[i]
		if cluster.Spec.Topology.IsDefined() {
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
	return fmt.Sprintf("Cluster API calls no hooks for Clusters without spec.topology, so the policy holds nothing back of %s; make them of a ClusterClass, or select others", strings.Join(names, ", "))
}

// findTopologies says whether hooks are called for all Clusters of the policy.
func (r *Reconciler) findTopologies(ctx context.Context, s *scope) error {
	effective := metav1.Condition{
		Type: lifecyclev1.EffectiveCondition, Status: metav1.ConditionTrue,
		Reason: lifecyclev1.HooksCalledReason, ObservedGeneration: s.policy.Generation,
	}
	if message := WithoutTopology(ctx, &r.matcher, s.policy, s.clusters); message != "" {
		effective.Status, effective.Reason, effective.Message = metav1.ConditionFalse, lifecyclev1.ClusterWithoutTopologyReason, message
	}
	s.effective = effective
	return ctx.Err()
}
