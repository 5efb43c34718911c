package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

const (
	// logsAtOnce is how many requests the agent of a host may answer at a time.
	logsAtOnce = 4
	// logsWait is how long a request waits for its turn.
	logsWait = 5 * time.Minute
	// logsGrace is how much later than its time limit an answer may be complete.
	logsGrace = 15 * time.Second
	// logsKept is how long a request is kept after it is complete.
	logsKept = 5 * time.Minute
)

// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostlogrequests,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostlogrequests/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hosts,verbs=get;list;watch;patch

// LogRoleName is the name of the Role and of the RoleBinding by which the agent of a host answers
// HostLogRequests.
func LogRoleName(hostName string) string { return "slipway-host-logs-" + hostName }

// LogReconciler lets the agent of a host answer the HostLogRequests for it, by their names and while
// they last, and deletes them afterwards. Requests name the Host.
type LogReconciler struct {
	Client client.Client
	// APIReader reads a Role that the cache should have.
	APIReader client.Reader
	Recorder  events.EventRecorder
	Clock     clock.PassiveClock
	// WatchFilter restricts the reconciler to hosts with that value of the label
	// cluster.x-k8s.io/watch-filter; it takes all when empty.
	WatchFilter string
}

// Reconcile brings all HostLogRequests of one host a step further.
func (r *LogReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	h := &infrav1.Host{}
	if err := r.Client.Get(ctx, req.NamespacedName, h); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	} else if err != nil {
		h = nil
	} else if r.WatchFilter != "" && h.Labels[clusterv1.WatchLabel] != r.WatchFilter {
		return ctrl.Result{}, nil
	}
	list := &infrav1.HostLogRequestList{}
	if err := r.Client.List(ctx, list, client.InNamespace(req.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list HostLogRequests: %w", err)
	}
	var requests []*infrav1.HostLogRequest
	for i := range list.Items {
		if list.Items[i].Spec.HostName == req.Name {
			requests = append(requests, &list.Items[i])
		}
	}
	plan := planLogs(h, requests, r.Clock.Now())
	return reconciler.Result(ctx, plan.next, r.carryOut(ctx, h, plan))
}

// logPlan is what is due about the requests for one host.
type logPlan struct {
	// readable are the names of those that the agent may answer, of which grant are new.
	readable []string
	grant    []*infrav1.HostLogRequest
	// end are those that nobody answers any more, and why; empty where the agent has answered.
	end map[*infrav1.HostLogRequest]string
	// remove are those that were kept for long enough.
	remove []*infrav1.HostLogRequest
	// next is when to plan again; never when zero.
	next time.Duration
}

// planLogs plans on the requests for one host, which is nil when it does not exist. What the agent
// wrote does not keep a request for longer than one that was never answered.
func planLogs(h *infrav1.Host, requests []*infrav1.HostLogRequest, now time.Time) logPlan {
	p := logPlan{end: map[*infrav1.HostLogRequest]string{}}
	slices.SortFunc(requests, func(a, b *infrav1.HostLogRequest) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	due := func(at time.Time) bool {
		wait := at.Sub(now)
		if wait > 0 && (p.next == 0 || wait < p.next) {
			p.next = wait
		}
		return wait <= 0
	}
	var waiting []*infrav1.HostLogRequest
	for _, q := range requests {
		last := q.CreationTimestamp.Add(logsWait)
		if q.Status.GrantedTime != nil {
			last = q.Status.GrantedTime.Add(logLimit(q) + logsGrace)
		}
		completed := q.Status.CompletionTime
		if completed != nil && completed.Time.Before(last) {
			last = completed.Time
		}
		switch {
		case !q.DeletionTimestamp.IsZero():
		case completed != nil:
			if due(last.Add(logsKept)) {
				p.remove = append(p.remove, q)
			}
		case h == nil:
			p.end[q] = fmt.Sprintf("namespace %s has no Host %s", q.Namespace, q.Spec.HostName)
		case q.Status.GrantedTime == nil && due(last):
			p.end[q] = fmt.Sprintf("the agent of Host %s answered %d other requests for %s: create another request later", h.Name, logsAtOnce, logsWait)
		case q.Status.GrantedTime == nil:
			waiting = append(waiting, q)
		case due(last):
			p.end[q] = unanswered(h, q)
		default:
			p.readable = append(p.readable, q.Name)
		}
	}
	for _, q := range waiting[:min(len(waiting), max(0, logsAtOnce-len(p.readable)))] {
		p.grant, p.readable = append(p.grant, q), append(p.readable, q.Name)
	}
	slices.Sort(p.readable)
	return p
}

// unanswered says why the time limit of a request has passed without an end of the answer.
func unanswered(h *infrav1.Host, q *infrav1.HostLogRequest) string {
	if q.Status.FirstLine > 0 {
		return fmt.Sprintf("the agent of Host %s stopped answering", h.Name)
	}
	return fmt.Sprintf("the agent of Host %s did not answer within %s: it is not connected, or its version does not read logs", h.Name, logLimit(q)+logsGrace)
}

func logLimit(q *infrav1.HostLogRequest) time.Duration {
	return time.Duration(cmp.Or(q.Spec.TimeLimitSeconds, infrav1.HostLogDefaultTimeLimit)) * time.Second
}

// carryOut writes what is planned. The Host no longer names a request before that goes.
func (r *LogReconciler) carryOut(ctx context.Context, h *infrav1.Host, plan logPlan) error {
	if h != nil {
		if err := r.share(ctx, h, plan.readable); err != nil {
			return err
		}
	}
	for _, q := range plan.grant {
		now := metav1.NewTime(r.Clock.Now())
		if err := r.patch(ctx, q, func(s *infrav1.HostLogRequestStatus) { s.GrantedTime = &now }); err != nil {
			return err
		}
		r.Recorder.Eventf(h, q, corev1.EventTypeNormal, "LogRequested", "ReadLog",
			"%s reads the log of the host's %s (HostLogRequest %s)", q.Spec.RequestedBy, strings.ToLower(string(q.Spec.Unit)), q.Name)
	}
	for q, why := range plan.end {
		now := metav1.NewTime(r.Clock.Now())
		if err := r.patch(ctx, q, func(s *infrav1.HostLogRequestStatus) { s.CompletionTime, s.Message = &now, why }); err != nil {
			return err
		}
	}
	for _, q := range plan.remove {
		if err := r.Client.Delete(ctx, q, client.Preconditions{UID: &q.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete HostLogRequest %s: %w", q.Name, err)
		}
	}
	return nil
}

// patch changes the status of a request. The text of the answer is not in the cache, and stays.
func (r *LogReconciler) patch(ctx context.Context, q *infrav1.HostLogRequest, change func(*infrav1.HostLogRequestStatus)) error {
	after := q.DeepCopy()
	change(&after.Status)
	if err := r.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(q, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of HostLogRequest %s: %w", q.Name, err)
	}
	return nil
}

// share lets the agent read and answer these requests and no others.
func (r *LogReconciler) share(ctx context.Context, h *infrav1.Host, names []string) error {
	if len(names) > 0 {
		// The name first: rights from before a crash are found by it.
		if err := r.tell(ctx, h, names); err != nil {
			return err
		}
		return grantRole(ctx, r.Client, r.APIReader, h, LogRoleName(h.Name), logRules(names))
	}
	if h.Annotations[infrav1.LogRequestsAnnotation] == "" {
		return nil
	}
	for _, o := range []client.Object{
		&rbacv1.RoleBinding{ObjectMeta: named(h, LogRoleName(h.Name))}, &rbacv1.Role{ObjectMeta: named(h, LogRoleName(h.Name))},
	} {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, o)); err != nil {
			return fmt.Errorf("delete %T %s: %w", o, o.GetName(), err)
		}
	}
	return r.tell(ctx, h, nil)
}

// tell names the requests on the Host, which the agent watches: a watch of requests would show it those of
// other hosts.
func (r *LogReconciler) tell(ctx context.Context, h *infrav1.Host, names []string) error {
	text := strings.Join(names, ",")
	if h.Annotations[infrav1.LogRequestsAnnotation] == text {
		return nil
	}
	before := h.DeepCopy()
	if text == "" {
		delete(h.Annotations, infrav1.LogRequestsAnnotation)
	} else {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, infrav1.LogRequestsAnnotation, text)
	}
	if err := r.Client.Patch(ctx, h, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("annotate Host %s: %w", h.Name, err)
	}
	return nil
}

// logRules are the rights to answer these requests. Without names they would be rights to all.
func logRules(names []string) []rbacv1.PolicyRule {
	group := []string{infrav1.GroupVersion.Group}
	return []rbacv1.PolicyRule{
		{APIGroups: group, Resources: []string{"hostlogrequests"}, ResourceNames: names, Verbs: []string{"get"}},
		{APIGroups: group, Resources: []string{"hostlogrequests/status"}, ResourceNames: names, Verbs: []string{"patch"}},
	}
}
