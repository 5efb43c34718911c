package expression

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/lru"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// Mismatch says why a policy is not about a Cluster.
type Mismatch string

const (
	// NoMismatch means that the policy is about the Cluster.
	NoMismatch Mismatch = ""
	// NotSelected means that the labels of the Cluster are not selected.
	NotSelected Mismatch = "its clusterSelector does not select the Cluster"
	// ConditionFalse means that the matchCondition is false for the Cluster.
	ConditionFalse Mismatch = "its matchCondition is false"
)

// maxConditions bounds the compiled conditions that are kept. Compiling takes about a
// millisecond.
const maxConditions = 1024

// Matcher matches policies and Clusters. It keeps compiled conditions; the zero value
// is ready, and may be used by many at once.
type Matcher struct {
	once     sync.Once
	programs *lru.Cache
}

// Match says why a policy is not about a Cluster; None when it is. The error, which
// names the policy and the field, says why that cannot be known: the Cluster must be
// held back by a policy in mode Enforce.
func (m *Matcher) Match(ctx context.Context, policy *lifecyclev1.LifecyclePolicy, cluster *clusterv1.Cluster) (Mismatch, error) {
	selected, err := Selects(policy, cluster)
	switch {
	case err != nil:
		return NoMismatch, err
	case !selected:
		return NotSelected, nil
	case policy.Spec.MatchCondition == "":
		return NoMismatch, nil
	}
	holds, err := m.evaluate(ctx, policy.Spec.MatchCondition, cluster)
	switch {
	case err != nil:
		return NoMismatch, fmt.Errorf("LifecyclePolicy %s: spec.matchCondition: %w; correct it, for example with has() for fields that can be missing", policy.Name, err)
	case !holds:
		return ConditionFalse, nil
	}
	return NoMismatch, nil
}

func (m *Matcher) evaluate(ctx context.Context, condition string, cluster *clusterv1.Cluster) (bool, error) {
	program, err := m.compile(condition)
	if err != nil {
		return false, err
	}
	variables, err := Variables(Inputs{Cluster: cluster})
	if err != nil {
		return false, err
	}
	return program.Eval(ctx, variables)
}

func (m *Matcher) compile(condition string) (*Program, error) {
	m.once.Do(func() { m.programs = lru.New(maxConditions) })
	if program, ok := m.programs.Get(condition); ok {
		return program.(*Program), nil
	}
	program, err := Compile(condition, Match)
	if err != nil {
		return nil, err
	}
	m.programs.Add(condition, program)
	return program, nil
}

// Selects says whether the clusterSelector of a policy selects a Cluster.
func Selects(policy *lifecyclev1.LifecyclePolicy, cluster *clusterv1.Cluster) (bool, error) {
	if policy.Spec.ClusterSelector == nil {
		return true, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(policy.Spec.ClusterSelector)
	if err != nil {
		return false, fmt.Errorf("LifecyclePolicy %s: spec.clusterSelector: %w", policy.Name, err)
	}
	return selector.Matches(labels.Set(cluster.Labels)), nil
}
