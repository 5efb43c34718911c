package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

const (
	// secretAccessPrefix starts the name of the Role and of the RoleBinding of a
	// bootstrap Secret.
	secretAccessPrefix = "slipway-bootstrap-"
	// refusedRetry is when to look again at a Secret that not all agents may read which
	// are asked to: its Machine, or the Secret itself, may come a moment later.
	refusedRetry = 2 * time.Second
	// batchPerAgent and longestBatch are how long changes of a list of agents are
	// gathered: a long list is written every two seconds, one of two at once.
	batchPerAgent = 40 * time.Millisecond
	longestBatch  = 2 * time.Second
)

// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=delete

// SecretAccessName is the name of the Role and of the RoleBinding that let agents
// read a bootstrap Secret.
func SecretAccessName(secret string) string { return secretAccessPrefix + secret }

// SecretAccessReconciler lets agents read a bootstrap Secret exactly while their
// hosts name it in spec.desired, and only if it is the bootstrap data of the machine
// that claimed the host (see misuse). There is one list of agents for each Secret: a
// pool shares its Secret, and two writes to a Role of each host would be a quarter
// of all that its members cost. Requests name the Secret.
type SecretAccessReconciler struct {
	Client client.Client
	// APIReader reads Secrets, which no cache holds, and lists of agents that it should.
	APIReader client.Reader
	Recorder  events.EventRecorder
	// Namespace restricts the manager to one namespace; it takes all when empty.
	Namespace string
	// Clock times the batches.
	Clock clock.PassiveClock

	mu sync.Mutex
	// due is when the next change of a list may be written.
	due map[client.ObjectKey]time.Time
}

// Reconcile brings the list of agents of one Secret up to date.
func (r *SecretAccessReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	name := client.ObjectKey{Namespace: req.Namespace, Name: SecretAccessName(req.Name)}
	binding := &rbacv1.RoleBinding{}
	err := r.Client.Get(ctx, name, binding)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("get RoleBinding %s: %w", name.Name, err)
	}
	exists := err == nil
	agents, refused, err := r.agents(ctx, req.NamespacedName, binding.Subjects)
	if err != nil {
		return ctrl.Result{}, err
	}
	result := ctrl.Result{}
	if refused {
		result.RequeueAfter = refusedRetry
	}
	switch {
	case !exists && len(agents) == 0, exists && equality.Semantic.DeepEqual(binding.Subjects, agents):
		return result, nil
	}
	if wait := r.wait(req.NamespacedName, max(len(agents), len(binding.Subjects))); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	switch {
	case len(agents) == 0:
		err = r.revoke(ctx, name)
	case exists:
		binding.Subjects = agents
		if err = r.Client.Update(ctx, binding); apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			// Its Role is gone, or grants what the manager may not: both are made anew.
			result.RequeueAfter, err = reconciler.ConflictRetry, r.revoke(ctx, name)
		}
	default:
		err = r.grant(ctx, name, req.Name, agents)
	}
	if apierrors.IsAlreadyExists(err) {
		unlabelled := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
		if err = reclaim(ctx, r.Client, r.APIReader, unlabelled, nil); err == nil {
			return ctrl.Result{RequeueAfter: reconciler.ConflictRetry}, nil
		}
	}
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: reconciler.ConflictRetry}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("let %d agents read Secret %s: %w", len(agents), req.Name, err)
	}
	return result, nil
}

// agents are those whose hosts name the Secret, by name; refused says that there are some
// besides that may not read it. Those who may read it already are not judged again: a
// pool has thousands.
func (r *SecretAccessReconciler) agents(ctx context.Context, secret client.ObjectKey, before []rbacv1.Subject) (agents []rbacv1.Subject, refused bool, _ error) {
	hosts := &infrav1.HostList{}
	// They are read only, and thousands.
	if err := r.Client.List(ctx, hosts, client.InNamespace(secret.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, fmt.Errorf("list hosts: %w", err)
	}
	known := make(map[string]bool, len(before))
	for _, subject := range before {
		known[subject.Name] = true
	}
	var data *corev1.Secret
	for i := range hosts.Items {
		h := &hosts.Items[i]
		if bootstrapSecret(h) != secret.Name {
			continue
		}
		for _, agent := range subjects(h) {
			if !known[agent.Name] {
				allowed, err := r.judge(ctx, h, secret, &data)
				if err != nil {
					return nil, false, err
				}
				if !allowed {
					refused = true
					continue
				}
			}
			agents = append(agents, agent)
		}
	}
	slices.SortFunc(agents, func(a, b rbacv1.Subject) int { return strings.Compare(a.Name, b.Name) })
	return agents, refused, nil
}

// judge says whether the agent of a host may read the Secret, which is read once, into
// data.
func (r *SecretAccessReconciler) judge(ctx context.Context, h *infrav1.Host, secret client.ObjectKey, data **corev1.Secret) (bool, error) {
	if *data == nil {
		found := &corev1.Secret{}
		err := r.APIReader.Get(ctx, secret, found)
		if why := reconciler.MissingSecretRights(err, secret.Namespace); why != "" {
			tellForbidden(r.Recorder, h.DeepCopy(), "Bootstrap", why)
			return false, nil
		}
		if err != nil {
			return false, client.IgnoreNotFound(err)
		}
		*data = found
	}
	why, err := r.misuse(ctx, h, *data)
	switch {
	case errors.Is(err, errNoMachineYet):
		return false, nil
	case err != nil:
		return false, err
	case why == "":
		return true, nil
	}
	ctrl.LoggerFrom(ctx).Info("The agent may not read the Secret that its operation names", "Host", klog.KObj(h), "Secret", klog.KRef(h.Namespace, secret.Name), "reason", why)
	r.Recorder.Eventf(h.DeepCopy(), nil, "Warning", "BootstrapDataRefused", "Bootstrap",
		"Secret %s is not the bootstrap data of HostMachine %s: %s. The agent may not read it", secret.Name, h.Spec.Claim.MachineName, why)
	return false, nil
}

// bootstrapSecret is the one that the operation of a host names; empty without one. A Host
// that is deleted has it, too: it stays as long as its machine, which needs the data.
func bootstrapSecret(h *infrav1.Host) string {
	if h.Spec.Desired == nil || h.Spec.Claim == nil {
		return ""
	}
	return h.Spec.Desired.BootstrapSecretName
}

// wait is how long a change has to wait for others. When it has not, the next one
// will.
func (r *SecretAccessReconciler) wait(secret client.ObjectKey, agents int) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Clock.Now()
	if wait := r.due[secret].Sub(now); wait > 0 {
		return wait
	}
	for other, due := range r.due {
		if now.After(due) {
			delete(r.due, other)
		}
	}
	if r.due == nil {
		r.due = map[client.ObjectKey]time.Time{}
	}
	r.due[secret] = now.Add(min(time.Duration(agents)*batchPerAgent, longestBatch))
	return 0
}

// grant makes the Role first: a binding without one grants nothing. One that is there, from
// a crash or from somebody else, then says what it has to.
func (r *SecretAccessReconciler) grant(ctx context.Context, name client.ObjectKey, secret string, agents []rbacv1.Subject) error {
	// The label brings them into the cache of the manager.
	meta := metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Labels: map[string]string{infrav1.HostLabel: ""}}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret}, Verbs: []string{"get"},
	}}}
	err := r.Client.Create(ctx, role)
	if apierrors.IsAlreadyExists(err) {
		err = r.Client.Update(ctx, role)
	}
	if err != nil {
		return err
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: agents}
	binding.RoleRef = roleOf(binding.Name)
	return r.Client.Create(ctx, binding)
}

// revoke deletes the binding first. A Role that a crash leaves is taken over by
// the next grant.
func (r *SecretAccessReconciler) revoke(ctx context.Context, name client.ObjectKey) error {
	meta := metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, &rbacv1.RoleBinding{ObjectMeta: meta})); err != nil {
		return err
	}
	return client.IgnoreNotFound(r.Client.Delete(ctx, &rbacv1.Role{ObjectMeta: meta}))
}
