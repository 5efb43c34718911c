package hooks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

// policies returns the policies that answer the hook for the Cluster, ordered by
// name. One in mode Audit that cannot be evaluated is left out: it must not hold the
// Cluster back. Any other one is an error.
func (h *Handler) policies(ctx context.Context, e event) ([]*lifecyclev1.LifecyclePolicy, error) {
	list := &lifecyclev1.LifecyclePolicyList{}
	// They are only read.
	if err := h.Client.List(ctx, list, client.InNamespace(e.cluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list LifecyclePolicies: %w", err)
	}
	var selected []*lifecyclev1.LifecyclePolicy
	for i := range list.Items {
		policy := &list.Items[i]
		if len(policy.Steps(e.hook)) == 0 || !policy.DeletionTimestamp.IsZero() {
			continue
		}
		matches, err := h.matches(ctx, policy, e.cluster)
		switch {
		case err != nil && policy.Spec.Mode == lifecyclev1.ModeAudit:
			log.FromContext(ctx).Error(err, "Left out a LifecyclePolicy in mode Audit", "namespace", policy.Namespace, "policy", policy.Name, "cluster", e.cluster.Name)
		case err != nil:
			return nil, err
		case matches:
			selected = append(selected, policy)
		}
	}
	slices.SortFunc(selected, func(a, b *lifecyclev1.LifecyclePolicy) int { return cmp.Compare(a.Name, b.Name) })
	return selected, nil
}

// matches says whether a policy is about the Cluster.
func (h *Handler) matches(ctx context.Context, policy *lifecyclev1.LifecyclePolicy, cluster *clusterv1.Cluster) (bool, error) {
	selects, err := plan.Selects(policy, cluster)
	if err != nil || !selects || policy.Spec.MatchCondition == "" {
		return selects, err
	}
	program, err := h.conditions.compile(policy.Spec.MatchCondition)
	if err != nil {
		return false, fmt.Errorf("LifecyclePolicy %s: spec.matchCondition: %w", policy.Name, err)
	}
	variables, err := expression.Variables(expression.Inputs{Cluster: cluster})
	if err != nil {
		return false, err
	}
	matches, err := program.Eval(ctx, variables)
	if err != nil {
		return false, fmt.Errorf("LifecyclePolicy %s: spec.matchCondition: %w; correct it, for example with has() for fields that can be missing", policy.Name, err)
	}
	return matches, nil
}

// maxConditions bounds the compiled conditions that are kept. Compiling takes about a
// millisecond.
const maxConditions = 1024

// conditions keeps compiled match conditions. The zero value is ready.
type conditions struct {
	once     sync.Once
	programs *lru.Cache
}

func (c *conditions) compile(condition string) (*expression.Program, error) {
	c.once.Do(func() { c.programs = lru.New(maxConditions) })
	if program, ok := c.programs.Get(condition); ok {
		return program.(*expression.Program), nil
	}
	program, err := expression.Compile(condition, expression.Match)
	if err != nil {
		return nil, err
	}
	c.programs.Add(condition, program)
	return program, nil
}
