package hooks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/sdk/extension"
)

// +kubebuilder:rbac:groups=lifecycle.slipway.dev,resources=lifecyclepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=lifecycle.slipway.dev,resources=lifecycleruns,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// How soon Cluster API calls again. It does not call earlier, whatever happens, so
// what is released must not have to wait long.
const (
	retryRunning = 5 * time.Second
	retryWaiting = 10 * time.Second
)

// auditPatience is how long the runs of policies in mode Audit may take to be made, all
// together: Cluster API takes an answer that comes late for an error, and waits.
const auditPatience = 2 * time.Second

// Handler answers the lifecycle hooks. Any number of them may run side by side.
type Handler struct {
	// Namespace is the only one whose Clusters it answers for; empty for all. Elsewhere it
	// knows no policies, so that it can neither block a Cluster nor let it pass: it
	// returns an error.
	Namespace string
	// Client reads policies and runs from a cache, and creates runs.
	Client client.Client
	// APIReader reads live what a response depends on.
	APIReader client.Reader
	// Clock tells whether a window is open.
	Clock clock.PassiveClock

	matcher expression.Matcher
}

// event is one call of a hook.
type event struct {
	hook    lifecyclev1.HookName
	cluster *clusterv1.Cluster
	request lifecyclev1.RunRequest
}

// verdict is what one policy says.
type verdict struct {
	// after is when to call again; 0 lets pass.
	after time.Duration
	// messages say why, one of each policy that holds the Cluster back.
	messages []string
	// runs are what it was read from.
	runs []*lifecyclev1.LifecycleRun
}

// answer returns nil to let the Cluster pass, extension.RetryAfter to block it,
// or an error.
func (h *Handler) answer(ctx context.Context, e event) error {
	start := h.Clock.Now()
	v, err := h.decide(ctx, e)
	observe(ctx, e.hook, v, err, h.Clock.Since(start))
	tell(ctx, e, v, err)
	if err != nil || v.after == 0 {
		return err
	}
	return extension.RetryAfter(v.after, join(v.messages, "; "))
}

// decide is what all policies together say.
func (h *Handler) decide(ctx context.Context, e event) (verdict, error) {
	cluster, err := h.cluster(ctx, e)
	if err != nil {
		return verdict{}, err
	}
	// A caller that reaches the port must not start what belongs to a moment that has not come.
	switch reason := plan.NotDue(e.hook, e.request, cluster); {
	case plan.Repeated(e.hook, reason):
		return verdict{}, nil
	case reason != "":
		return verdict{}, fmt.Errorf("hook %s was called for Cluster %s, which is not due: %s", e.hook, client.ObjectKeyFromObject(cluster), reason)
	}
	e.cluster = cluster
	// A stale cache may block; a policy that it does not have yet must not
	// let pass.
	v, err := h.ask(ctx, h.Client, e)
	if err != nil || v.after > 0 {
		return v, err
	}
	return h.ask(ctx, h.APIReader, e)
}

// ask is what all policies together say that a reader has.
func (h *Handler) ask(ctx context.Context, reader client.Reader, e event) (verdict, error) {
	// Every policy gets its run, also beside one that fails.
	policies, errs := h.policies(ctx, reader, e)
	var all verdict
	looking, done := context.WithTimeout(ctx, auditPatience)
	defer done()
	for _, policy := range policies {
		asking := ctx
		if policy.Spec.Mode == lifecyclev1.ModeAudit {
			asking = looking
		}
		v, err := h.verdict(asking, e, policy)
		if err != nil && policy.Spec.Mode == lifecyclev1.ModeAudit {
			log.FromContext(ctx).Error(err, "Left out a LifecyclePolicy in mode Audit", "LifecyclePolicy", klog.KObj(policy))
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("LifecyclePolicy %s: %w", policy.Name, err))
			continue
		}
		all = all.and(v)
	}
	if len(errs) > 0 {
		return verdict{runs: all.runs}, failures(errs)
	}
	if !e.hook.Blocking() {
		return verdict{runs: all.runs}, nil
	}
	return all, nil
}

// and requests the next call as soon as either wants it.
func (v verdict) and(other verdict) verdict {
	both := verdict{after: max(v.after, other.after), messages: append(v.messages, other.messages...), runs: append(v.runs, other.runs...)}
	if v.after > 0 && other.after > 0 {
		both.after = min(v.after, other.after)
	}
	return both
}

// cluster returns the Cluster as the API server has it. A request about another one is refused.
func (h *Handler) cluster(ctx context.Context, e event) (*clusterv1.Cluster, error) {
	key := client.ObjectKeyFromObject(e.cluster)
	if h.Namespace != "" && key.Namespace != h.Namespace {
		return nil, fmt.Errorf("this slipway-lifecycle answers for namespace %s only (--namespace), not for Cluster %s: set spec.namespaceSelector of the ExtensionConfig that calls it to kubernetes.io/metadata.name: %s, and have another one for namespace %s",
			h.Namespace, key, h.Namespace, key.Namespace)
	}
	cluster := &clusterv1.Cluster{}
	if err := h.APIReader.Get(ctx, key, cluster); err != nil {
		return nil, fmt.Errorf("read Cluster %s: %w", key, err)
	}
	if cluster.UID != e.cluster.UID {
		return nil, fmt.Errorf("the request is about Cluster %s with UID %q, which has UID %q", key, e.cluster.UID, cluster.UID)
	}
	return cluster, nil
}

// verdict says whether a policy lets the Cluster pass, and starts its run if there
// is none.
func (h *Handler) verdict(ctx context.Context, e event, policy *lifecyclev1.LifecyclePolicy) (verdict, error) {
	run, err := h.run(ctx, e, policy)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{runs: []*lifecyclev1.LifecycleRun{run}}
	if policy.Spec.Mode == lifecyclev1.ModeAudit {
		return v, nil
	}
	blocks, message := plan.Blocks(run, h.Clock.Now())
	if !blocks {
		return v, nil
	}
	v.after, v.messages = retryWaiting, []string{message}
	if phase := plan.Phase(run); phase == lifecyclev1.RunPending || phase == lifecyclev1.RunRunning {
		v.after = retryRunning
	}
	return v, nil
}

// run returns the run that counts for the call, as it is stored if it lets pass.
func (h *Handler) run(ctx context.Context, e event, policy *lifecyclev1.LifecyclePolicy) (*lifecyclev1.LifecycleRun, error) {
	c := call{cluster: e.cluster.Name, policy: policy.Name, hook: e.hook, request: e.request}
	run, err := h.newest(ctx, e, c)
	if err != nil {
		return nil, err
	}
	if run != nil && plan.Counts(run, policy) {
		if blocks, _ := plan.Blocks(run, h.Clock.Now()); blocks {
			return run, nil
		}
		live := &lifecyclev1.LifecycleRun{}
		err := h.APIReader.Get(ctx, client.ObjectKeyFromObject(run), live)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read LifecycleRun %s: %w", run.Name, err)
		}
		if err == nil && plan.Counts(live, policy) {
			return live, nil
		}
	}
	attempt := int32(1)
	if run != nil {
		attempt = run.Spec.Attempt + 1
	}
	return h.start(ctx, e, c, policy, attempt)
}

// newest returns the last attempt that the cache knows; nil when there is none.
func (h *Handler) newest(ctx context.Context, e event, c call) (*lifecyclev1.LifecycleRun, error) {
	runs := &lifecyclev1.LifecycleRunList{}
	// They are only read.
	if err := h.Client.List(ctx, runs, client.InNamespace(e.cluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list LifecycleRuns: %w", err)
	}
	return plan.Newest(runs.Items, func(run *lifecyclev1.LifecycleRun) bool { return c.is(run) && ownedBy(run, e.cluster) }), nil
}

// start creates an attempt, or takes the one that somebody else created a moment
// ago, and goes on to the next when that was given up.
func (h *Handler) start(ctx context.Context, e event, c call, policy *lifecyclev1.LifecyclePolicy, attempt int32) (*lifecyclev1.LifecycleRun, error) {
	for ; ; attempt++ {
		run := newRun(e, c, policy, attempt)
		err := h.Client.Create(ctx, run)
		if err == nil {
			// The caller has added the Cluster to the logger.
			log.FromContext(ctx).Info("Created a LifecycleRun", "LifecycleRun", klog.KObj(run), "LifecyclePolicy", klog.KRef(run.Namespace, c.policy))
			return run, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create LifecycleRun %s: %w", run.Name, err)
		}
		live := &lifecyclev1.LifecycleRun{}
		if err := h.APIReader.Get(ctx, client.ObjectKeyFromObject(run), live); err != nil {
			return nil, fmt.Errorf("read LifecycleRun %s: %w", run.Name, err)
		}
		if !c.is(live) || !ownedBy(live, e.cluster) {
			return nil, fmt.Errorf("LifecycleRun %s is there already, for another Cluster, policy or call; it is in the way until it is removed, which happens by itself if its Cluster was deleted", run.Name)
		}
		if plan.Counts(live, policy) {
			return live, nil
		}
	}
}

// policies returns the policies that answer the hook for the Cluster, ordered by name, those
// in mode Audit last. The errors are about the policies that cannot be evaluated; the others
// are returned beside them. One in mode Audit is omitted without an error: it must not
// block the Cluster.
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
		case mismatch == expression.NoMismatch:
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
