package run

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters/status,verbs=patch

// maxListed is how many runs the message of a condition tells about.
const maxListed = 5

// ClusterReconciler keeps the condition LifecycleReady of Clusters: what their runs
// wait for, since when, and what to do. A Cluster without runs has none.
type ClusterReconciler struct {
	Client client.Client
	// Clock tells whether windows are open.
	Clock clock.PassiveClock
}

// Reconcile sets the condition of one Cluster.
func (r *ClusterReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	runs := &lifecyclev1.LifecycleRunList{}
	if err := r.Client.List(ctx, runs, client.InNamespace(cluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list LifecycleRuns: %w", err)
	}
	runs.Items = slices.DeleteFunc(runs.Items, func(run lifecyclev1.LifecycleRun) bool { return plan.OwnerUID(&run) != cluster.UID })
	helper, err := patch.NewHelper(cluster, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	result := ctrl.Result{}
	if len(runs.Items) == 0 {
		conditions.Delete(cluster, lifecyclev1.ClusterLifecycleReadyCondition)
	} else {
		now := r.Clock.Now()
		ready, changes := lifecycleReady(runs.Items, cluster, now)
		conditions.Set(cluster, ready)
		if !changes.IsZero() {
			result.RequeueAfter = max(changes.Sub(now), shortestPause)
		}
	}
	return result, client.IgnoreNotFound(helper.Patch(ctx, cluster, patch.WithOwnedConditions{
		Conditions: []string{lifecyclev1.ClusterLifecycleReadyCondition},
	}))
}

// lifecycleReady summarizes runs. Those in mode Audit block nothing. Changes is when
// it is another one without a change of the runs and their Cluster; zero for never.
func lifecycleReady(runs []lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster, now time.Time) (_ metav1.Condition, changes time.Time) {
	slices.SortFunc(runs, func(a, b lifecyclev1.LifecycleRun) int { return strings.Compare(a.Name, b.Name) })
	condition := metav1.Condition{
		Type: lifecyclev1.ClusterLifecycleReadyCondition, Status: metav1.ConditionTrue, Reason: lifecyclev1.ClusterLifecycleReadyReason,
	}
	var messages []string
	for i := range runs {
		message, next := unfinished(&runs[i], cluster, now)
		if !next.IsZero() && (changes.IsZero() || next.Before(changes)) {
			changes = next
		}
		if message == "" {
			continue
		}
		condition.Status = metav1.ConditionFalse
		if plan.Phase(&runs[i]) == lifecyclev1.RunFailed {
			condition.Reason = lifecyclev1.ClusterLifecycleFailedReason
		} else if condition.Reason != lifecyclev1.ClusterLifecycleFailedReason {
			condition.Reason = lifecyclev1.ClusterLifecycleWaitingReason
		}
		messages = append(messages, fmt.Sprintf("* %s: %s", runs[i].Spec.Hook, message))
	}
	if more := len(messages) - maxListed; more > 0 {
		messages = append(messages[:maxListed], fmt.Sprintf("* and %d more", more))
	}
	if len(messages) == 0 {
		messages = mayGoOn(runs, cluster)
	}
	condition.Message = strings.Join(messages, "\n")
	return condition, changes
}

// mayGoOn tells the author of a Cluster without a topology to do what had to wait.
func mayGoOn(runs []lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster) []string {
	var messages []string
	for hook, message := range map[lifecyclev1.HookName]string{
		lifecyclev1.BeforeClusterCreate: fmt.Sprintf(`* the Cluster may be made: kubectl patch cluster -n %s %s --type merge -p '{"spec":{"paused":false}}'`, cluster.Namespace, cluster.Name),
		lifecyclev1.BeforeClusterDelete: fmt.Sprintf("* the Cluster may be deleted: kubectl delete cluster -n %s %s", cluster.Namespace, cluster.Name),
	} {
		done := slices.ContainsFunc(runs, func(run lifecyclev1.LifecycleRun) bool {
			return run.Spec.Hook == hook && plan.Phase(&run) == lifecyclev1.RunSucceeded && run.Spec.Mode != lifecyclev1.ModeAudit
		})
		if done && plan.Asks(hook, cluster) {
			messages = append(messages, message)
		}
	}
	slices.Sort(messages)
	return messages
}

// unfinished tells what a run waits for, also one that no hook waits for; empty when
// it does not. Changes is as of plan.Holds.
func unfinished(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster, now time.Time) (message string, changes time.Time) {
	if run.Spec.Mode == lifecyclev1.ModeAudit {
		return "", time.Time{}
	}
	if !plan.Finished(run) {
		return fmt.Sprintf("LifecyclePolicy %s, step %s: %s", run.Spec.PolicyName, plan.Current(run).Name, plan.Explain(run)), time.Time{}
	}
	_, message, changes = plan.Holds(run, cluster, now)
	return message, changes
}

// SetupWithManager watches Clusters and their runs.
func (r *ClusterReconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("lifecyclecluster").
		WithOptions(options).
		For(&clusterv1.Cluster{}).
		Watches(&lifecyclev1.LifecycleRun{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			run, ok := o.(*lifecyclev1.LifecycleRun)
			if !ok {
				return nil
			}
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: run.Namespace, Name: run.Spec.ClusterName}}}
		})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of LifecycleReady: %w", err)
	}
	return nil
}
