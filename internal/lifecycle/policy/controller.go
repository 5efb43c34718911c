package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// +kubebuilder:rbac:groups=lifecycle.slipway.dev,resources=lifecyclepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=lifecycle.slipway.dev,resources=lifecyclepolicies/status,verbs=patch
// +kubebuilder:rbac:groups=lifecycle.slipway.dev,resources=lifecycleruns,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// Reconciler reconciles LifecyclePolicies.
type Reconciler struct {
	Client client.Client
	// APIReader looks for ConfigMaps and Secrets, which no cache holds.
	APIReader client.Reader
	// Validate finds the faults of a policy, as the admission webhook does.
	Validate func(*lifecyclev1.LifecyclePolicy) error
	// Rights are those of the engine.
	Rights *rights.Checker
	Clock  clock.PassiveClock

	matcher expression.Matcher
}

const (
	// missingInterval is how soon it is seen that something missing has come: neither
	// ConfigMaps and Secrets nor RoleBindings nor Namespaces are watched.
	missingInterval = 30 * time.Second
	// checkInterval is how soon it is seen that something has gone, and that windows
	// meet no more.
	checkInterval = 10 * time.Minute
)

// scope is what one reconcile knows.
type scope struct {
	policy   *lifecyclev1.LifecyclePolicy
	runs     []lifecyclev1.LifecycleRun
	clusters []clusterv1.Cluster
	// fault is why the policy is not ready.
	fault *fault
	// effective is the condition Effective.
	effective metav1.Condition
}

// fault is a reason of the condition Ready, and its message.
type fault struct{ reason, message string }

// phase is one part of a reconcile.
type phase func(context.Context, *scope) error

func (r *Reconciler) phases() []phase {
	return []phase{r.readRuns, r.validate, r.findRights, r.findReferences, r.findConflicts, r.findTopologies, r.prune}
}

// Reconcile brings the status of one LifecyclePolicy up to date, and prunes its runs.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	policy := &lifecyclev1.LifecyclePolicy{}
	if err := r.Client.Get(ctx, req.NamespacedName, policy); err != nil || !policy.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s := &scope{policy: policy}
	for _, p := range r.phases() {
		if err := p(ctx, s); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.report(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	if s.fault != nil || s.effective.Reason == lifecyclev1.EnforcementNotEnabledReason || s.effective.Reason == lifecyclev1.EnforcementUnknownReason {
		return ctrl.Result{RequeueAfter: missingInterval}, nil
	}
	return ctrl.Result{RequeueAfter: checkInterval}, nil
}

func (r *Reconciler) readRuns(ctx context.Context, s *scope) error {
	runs := &lifecyclev1.LifecycleRunList{}
	if err := r.Client.List(ctx, runs, client.InNamespace(s.policy.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list LifecycleRuns: %w", err)
	}
	for i := range runs.Items {
		if runs.Items[i].Spec.PolicyName == s.policy.Name {
			s.runs = append(s.runs, runs.Items[i])
		}
	}
	clusters := &clusterv1.ClusterList{}
	if err := r.Client.List(ctx, clusters, client.InNamespace(s.policy.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Clusters: %w", err)
	}
	s.clusters = clusters.Items
	return nil
}

func (r *Reconciler) validate(_ context.Context, s *scope) error {
	if err := r.Validate(s.policy); err != nil {
		s.fault = &fault{lifecyclev1.InvalidPolicyReason, err.Error()}
	}
	return nil
}

// report writes the status, when it has changed.
func (r *Reconciler) report(ctx context.Context, s *scope) error {
	before := s.policy.DeepCopy()
	ready := metav1.Condition{
		Type: lifecyclev1.ReadyCondition, Status: metav1.ConditionTrue,
		Reason: lifecyclev1.PolicyReadyReason, ObservedGeneration: s.policy.Generation,
	}
	if s.fault != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, s.fault.reason, s.fault.message
	}
	status := &s.policy.Status
	meta.SetStatusCondition(&status.Conditions, ready)
	meta.SetStatusCondition(&status.Conditions, s.effective)
	status.ObservedGeneration = s.policy.Generation
	status.ActiveRuns = ptr.To(active(s.runs))
	if apiequality.Semantic.DeepEqual(before.Status, s.policy.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, s.policy, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("patch the status: %w", err))
	}
	return nil
}

// defaultHistory is how many finished runs are kept.
const defaultHistory = 3

// active counts the runs that have not finished.
func active(runs []lifecyclev1.LifecycleRun) int32 {
	n := int32(0)
	for i := range runs {
		if !plan.Finished(&runs[i]) {
			n++
		}
	}
	return n
}

// prune deletes finished runs beyond the limit. Each is deleted only as it was seen.
func (r *Reconciler) prune(ctx context.Context, s *scope) error {
	for _, old := range superfluous(s.policy, s.runs, s.clusters) {
		err := r.Client.Delete(ctx, old, client.Preconditions{UID: &old.UID, ResourceVersion: &old.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete LifecycleRun %s: %w", old.Name, err)
		}
		ctrl.LoggerFrom(ctx).V(2).Info("Pruned a LifecycleRun", "LifecycleRun", klog.KObj(old))
	}
	return nil
}

// superfluous returns the finished runs that are not kept. For each cluster and hook
// the newest are kept, and all that the hook may be called for again: those of the
// version that the cluster has or is to get. Without them the steps would be executed a
// second time. Nothing is pruned while the cluster is not there, or paused: clusterctl
// move may be under way.
func superfluous(policy *lifecyclev1.LifecyclePolicy, runs []lifecyclev1.LifecycleRun, clusters []clusterv1.Cluster) []*lifecyclev1.LifecycleRun {
	type group struct {
		cluster types.UID
		hook    lifecyclev1.HookName
	}
	byUID := map[types.UID]*clusterv1.Cluster{}
	for i := range clusters {
		byUID[clusters[i].UID] = &clusters[i]
	}
	finished := map[group][]*lifecyclev1.LifecycleRun{}
	for i := range runs {
		if key := (group{plan.OwnerUID(&runs[i]), runs[i].Spec.Hook}); plan.Finished(&runs[i]) {
			finished[key] = append(finished[key], &runs[i])
		}
	}
	limit := int(ptr.Deref(policy.Spec.RunHistoryLimit, defaultHistory))
	var old []*lifecyclev1.LifecycleRun
	for key, all := range finished {
		cluster := byUID[key.cluster]
		if cluster == nil || ptr.Deref(cluster.Spec.Paused, false) {
			continue
		}
		slices.SortFunc(all, newestFirst)
		newest := map[[3]string]bool{}
		for i, candidate := range all {
			request := &candidate.Spec.Request
			first := !newest[request.Versions()]
			newest[request.Versions()] = true
			if i < limit || first && current(request, cluster) {
				continue
			}
			old = append(old, candidate)
		}
	}
	return old
}

// current says whether a hook may be called again with a request.
func current(request *lifecyclev1.RunRequest, cluster *clusterv1.Cluster) bool {
	wanted := cluster.Spec.Topology.Version
	return request.Versions() == [3]string{} || request.ToKubernetesVersion == wanted || request.KubernetesVersion == wanted
}

// newestFirst orders by what was last done: clusterctl move creates all runs anew.
func newestFirst(a, b *lifecyclev1.LifecycleRun) int {
	return cmp.Or(lastDone(b).Compare(lastDone(a)), cmp.Compare(b.Spec.Attempt, a.Spec.Attempt), cmp.Compare(a.Name, b.Name))
}

func lastDone(r *lifecyclev1.LifecycleRun) time.Time {
	last := time.Time{}
	for _, progress := range r.Spec.Progress {
		for _, t := range []time.Time{progress.StartTime.Time, progress.EndTime.Time} {
			if t.After(last) {
				last = t
			}
		}
	}
	if last.IsZero() {
		return r.CreationTimestamp.Time
	}
	return last
}

// SetupWithManager watches LifecyclePolicies, their runs and the Clusters beside them. A
// policy that changes may conflict with each other one of its namespace.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("lifecyclepolicy").
		WithOptions(options).
		Watches(&lifecyclev1.LifecyclePolicy{}, handler.EnqueueRequestsFromMapFunc(r.policiesBeside), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&lifecyclev1.LifecycleRun{}, handler.EnqueueRequestsFromMapFunc(policyOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.policiesBeside),
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the LifecyclePolicy controller: %w", err)
	}
	return nil
}

func policyOf(_ context.Context, o client.Object) []reconcile.Request {
	run, ok := o.(*lifecyclev1.LifecycleRun)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: run.Namespace, Name: run.Spec.PolicyName}}}
}

func (r *Reconciler) policiesBeside(ctx context.Context, o client.Object) []reconcile.Request {
	return reconciler.Requests[client.Object](ctx, r.Client, &lifecyclev1.LifecyclePolicyList{}, nil, client.InNamespace(o.GetNamespace()))
}
