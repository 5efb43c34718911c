package runs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// Explain tells of one Cluster which policies are about it and what their runs do.
func Explain(ctx context.Context, c client.Reader, cluster client.ObjectKey, now time.Time) (Explanation, error) {
	object := &clusterv1.Cluster{}
	if err := c.Get(ctx, cluster, object); err != nil {
		return Explanation{}, fmt.Errorf("read Cluster %s: %w", cluster, err)
	}
	e := Explanation{Namespace: cluster.Namespace, Cluster: cluster.Name, Policies: []Policy{}, Runs: []Run{}}
	policies := &lifecyclev1.LifecyclePolicyList{}
	if err := c.List(ctx, policies, client.InNamespace(cluster.Namespace)); err != nil {
		return Explanation{}, fmt.Errorf("list LifecyclePolicies: %w", err)
	}
	matcher := &expression.Matcher{}
	for i := range policies.Items {
		e.Policies = append(e.Policies, policyOf(ctx, matcher, &policies.Items[i], object))
	}
	list, err := ofCluster(ctx, c, cluster)
	if err != nil {
		return Explanation{}, err
	}
	for i := range list {
		e.Runs = append(e.Runs, RunOf(&list[i], object, now))
	}
	return e, nil
}

// ofCluster returns the runs of a Cluster, in the order of the hooks.
func ofCluster(ctx context.Context, c client.Reader, cluster client.ObjectKey) ([]lifecyclev1.LifecycleRun, error) {
	list := &lifecyclev1.LifecycleRunList{}
	if err := c.List(ctx, list, client.InNamespace(cluster.Namespace)); err != nil {
		return nil, fmt.Errorf("list LifecycleRuns: %w", err)
	}
	runs := slices.DeleteFunc(list.Items, func(r lifecyclev1.LifecycleRun) bool { return r.Spec.ClusterName != cluster.Name })
	inOrder(runs)
	return runs, nil
}

// Everywhere tells of the runs of Clusters, sorted by the names of these. It has no policies.
func Everywhere(clusters []clusterv1.Cluster, runs []lifecyclev1.LifecycleRun, now time.Time) []Explanation {
	inOrder(runs)
	of := map[client.ObjectKey][]*lifecyclev1.LifecycleRun{}
	for i := range runs {
		run := &runs[i]
		key := client.ObjectKey{Namespace: run.Namespace, Name: run.Spec.ClusterName}
		of[key] = append(of[key], run)
	}
	var all []Explanation
	for i := range clusters {
		cluster := &clusters[i]
		e := Explanation{Namespace: cluster.Namespace, Cluster: cluster.Name, Policies: []Policy{}, Runs: []Run{}}
		for _, run := range of[client.ObjectKeyFromObject(cluster)] {
			e.Runs = append(e.Runs, RunOf(run, cluster, now))
		}
		if len(e.Runs) > 0 {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b Explanation) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Cluster, b.Cluster))
	})
	return all
}

// inOrder sorts runs by their hooks, in the order in which a Cluster meets them.
func inOrder(runs []lifecyclev1.LifecycleRun) {
	order := lifecyclev1.Hooks()
	slices.SortFunc(runs, func(a, b lifecyclev1.LifecycleRun) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.Spec.Hook), slices.Index(order, b.Spec.Hook)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Spec.PolicyName, b.Spec.PolicyName),
			cmp.Compare(a.Spec.Attempt, b.Spec.Attempt))
	})
}

func policyOf(ctx context.Context, matcher *expression.Matcher, policy *lifecyclev1.LifecyclePolicy, cluster *clusterv1.Cluster) Policy {
	p := Policy{Name: policy.Name, Mode: policy.Spec.Mode, Hooks: []lifecyclev1.HookName{}}
	for _, hook := range policy.Spec.Hooks {
		p.Hooks = append(p.Hooks, hook.Hook)
	}
	mismatch, err := matcher.Match(ctx, policy, cluster)
	p.Matches, p.Message = err == nil && mismatch == expression.NoMismatch, string(mismatch)
	if err != nil {
		p.Message = fmt.Sprintf("whether it matches cannot be known, which holds the Cluster back: %v", err)
	}
	if p.Matches && !cluster.Spec.Topology.IsDefined() {
		p.Message = withoutTopology(policy)
	}
	if ready := meta.FindStatusCondition(policy.Status.Conditions, lifecyclev1.ReadyCondition); p.Message == "" && ready != nil && ready.Status != "True" {
		p.Message = cmp.Or(ready.Message, ready.Reason)
	}
	return p
}

// withoutTopology tells what a policy holds back of a Cluster for which no hooks are called.
func withoutTopology(policy *lifecyclev1.LifecyclePolicy) string {
	const never = "the Cluster has no spec.topology: Cluster API calls no hooks for it, so it passes all of them"
	if policy.Spec.Enforcement != lifecyclev1.EnforcementAll {
		return never
	}
	effective := meta.FindStatusCondition(policy.Status.Conditions, lifecyclev1.EffectiveCondition)
	if effective != nil && (effective.Reason == lifecyclev1.EnforcementNotEnabledReason || effective.Reason == lifecyclev1.EnforcementUnknownReason) {
		return effective.Message
	}
	return never + " but creation and deletion, which admission holds back"
}

// RunOf tells of one run of a Cluster.
func RunOf(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster, now time.Time) Run {
	s := &run.Spec
	r := Run{
		Name: run.Name, Hook: s.Hook, Policy: s.PolicyName, Mode: s.Mode, Attempt: s.Attempt,
		Phase: plan.Phase(run), Request: s.Request, Message: plan.Explain(run), Steps: []Step{}, Decisions: s.Decisions,
	}
	var message string
	if r.Blocks, message, _ = plan.Holds(run, cluster, now); r.Blocks && r.Phase == lifecyclev1.RunSucceeded {
		r.Message = message
	}
	if r.Blocks && r.Hook.DelaysTopology() {
		r.Message += "; until it passes, other changes of the topology wait, too, such as scaling"
	}
	current := plan.Current(run)
	for i := range s.Steps {
		told := stepOf(run, &s.Steps[i])
		if r.Phase != lifecyclev1.RunCancelled && current != nil && s.Steps[i].Name == current.Name {
			r.Current = current.Name
			if told.State == pending {
				told.State = waiting
			}
		}
		r.Steps = append(r.Steps, told)
	}
	return r
}

// States of steps that have not ended.
const (
	pending = "Pending"
	waiting = "Waiting"
)

func stepOf(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step) Step {
	told := Step{Name: s.Name, Kind: step.Of(s).Name(), State: pending}
	progress := run.Progress(s.Name)
	if progress == nil {
		return told
	}
	told.Since, told.Until = timeOf(progress.StartTime.Time), timeOf(progress.EndTime.Time)
	told.Failures, told.Message = progress.Failures, progress.Message
	if progress.Outcome != "" {
		told.State = string(progress.Outcome)
	}
	return told
}

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
