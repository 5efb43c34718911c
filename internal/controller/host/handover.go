package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=slipway-hand-over,verbs=list;watch

// HandOverReconciler prepares what an operator requested by Secret slipway-hand-over: it
// checks and signs it, and lets the agents of approved hosts of the namespace read it,
// until it expires. The list of these agents outlives the Hosts, which go with the move,
// and the Secret: an agent that was away finds the hand-over when it returns, also one
// that is made after the move. Requests name the Secret.
type HandOverReconciler struct {
	Client client.Client
	// APIReader reads the signing key past the cache, which doesn't hold it.
	APIReader client.Reader
	Recorder  events.EventRecorder
	// Clock tells when a hand-over has expired.
	Clock clock.PassiveClock

	signers signers
}

// Reconcile brings the hand-over of one namespace up to date.
func (r *HandOverReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	secret := &corev1.Secret{}
	var result ctrl.Result
	err := r.Client.Get(ctx, req.NamespacedName, secret)
	switch {
	case apierrors.IsNotFound(err), err == nil && !secret.DeletionTimestamp.IsZero():
		err = r.revoke(ctx, req.NamespacedName)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get Secret %s: %w", req.Name, err)
	default:
		result, err = r.prepare(ctx, secret)
		if why := reconciler.MissingSecretRights(err, req.Namespace); why != "" {
			// An annotation can't tell it: the right to write that is missing, too.
			tellForbidden(r.Recorder, secret, "HandOver", why)
			return ctrl.Result{RequeueAfter: reconciler.SecretsRetry}, nil
		}
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		result.RequeueAfter, err = reconciler.ConflictRetry, r.reclaim(ctx, req.NamespacedName)
	case apierrors.IsConflict(err):
		result.RequeueAfter, err = reconciler.ConflictRetry, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}

// prepare signs the Secret before it lets agents read it: they must be able to trust it.
func (r *HandOverReconciler) prepare(ctx context.Context, secret *corev1.Secret) (ctrl.Result, error) {
	signed, retry, err := r.sign(ctx, secret)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.grant(ctx, secret, signed); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: retry}, nil
}

// reclaim brings the Role and the RoleBinding of a hand-over into the cache. A Role is made
// anew, and of the list of its own nobody stays who is no agent.
func (r *HandOverReconciler) reclaim(ctx context.Context, key client.ObjectKey) error {
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	role, binding := &rbacv1.Role{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta}
	if err := reclaim(ctx, r.Client, r.APIReader, role, nil); err != nil {
		return err
	}
	if _, labelled := role.Labels[infrav1.HostLabel]; !labelled {
		return nil // It is made first: the manager may not write a list for a Role that is missing.
	}
	return reclaim(ctx, r.Client, r.APIReader, binding, func() bool { return binding.RoleRef == roleOf(key.Name) })
}

// sign signs what is in order, and tells what is not. It returns whether the Secret is
// signed, and when to look again: for a key, or at the end of the hand-over.
func (r *HandOverReconciler) sign(ctx context.Context, secret *corev1.Secret) (signed bool, retry time.Duration, _ error) {
	handOver := host.ReadHandOver(secret.Data)
	changed := secret.DeepCopy()
	delete(changed.Data, infrav1.HandOverSignatureKey)
	delete(changed.Annotations, infrav1.HandOverProblemAnnotation)
	refuse := func(why string) {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, infrav1.HandOverProblemAnnotation, why)
	}
	now := r.Clock.Now()
	switch why := faultOf(secret, handOver, now); {
	case why != "":
		refuse(why)
	case handOver.ByHand():
		retry = handOver.Expires.Sub(now)
	default:
		key, err := r.signers.fresh(ctx, r.APIReader, secret.Namespace)
		if err != nil {
			return false, 0, err
		}
		if key == nil {
			retry = signerRetry
			refuse("Secret " + infrav1.HandOverSignerSecretName + " is missing, by which the agents of this namespace know a hand-over. Make it once, with 32 random bytes under the key " +
				infrav1.HandOverSignerSeedKey + "; on a plane, `slipway host token -n " + secret.Namespace + "` does it")
		} else {
			changed.Data[infrav1.HandOverSignatureKey] = handOver.Sign(key, secret.Namespace)
			// It is signed anew when the key was replaced.
			signed, retry = true, min(handOver.Expires.Sub(now), signerLife)
		}
	}
	problem := changed.Annotations[infrav1.HandOverProblemAnnotation]
	if bytes.Equal(handOver.Signature, changed.Data[infrav1.HandOverSignatureKey]) && secret.Annotations[infrav1.HandOverProblemAnnotation] == problem {
		return signed, retry, nil
	}
	if err := r.Client.Patch(ctx, changed, client.MergeFrom(secret)); err != nil {
		return false, 0, fmt.Errorf("sign Secret %s: %w", secret.Name, err)
	}
	if problem != "" {
		r.Recorder.Eventf(secret, nil, corev1.EventTypeWarning, "NotSigned", "HandOver", "The hosts are not handed over: %.900s", problem)
	}
	return signed, retry, nil
}

// faultOf tells why a Secret is no hand-over that the manager signs, and what to do;
// empty when it is.
func faultOf(secret *corev1.Secret, handOver host.HandOver, now time.Time) string {
	const again = "; delete it and make it as docs/clusterctl.md#move tells"
	switch {
	case secret.Type != infrav1.HandOverSecretType:
		return fmt.Sprintf("its type is %s, not %s%s", secret.Type, infrav1.HandOverSecretType, again)
	case secret.Labels[infrav1.PurposeLabel] != infrav1.HandOverPurpose:
		return fmt.Sprintf("label %s=%s is missing, by which it says what it is for", infrav1.PurposeLabel, infrav1.HandOverPurpose)
	case handOver.Expires.IsZero():
		return "key " + infrav1.HandOverExpirationKey + ": want the time at which the hand-over ends, such as " + now.Add(time.Hour).UTC().Format(time.RFC3339)
	case handOver.Expired(now):
		return "key " + infrav1.HandOverExpirationKey + ": the hand-over ended at " + handOver.Expires.UTC().Format(time.RFC3339) + "; write a later time there, and see that the token is still good"
	case handOver.ByHand():
		return ""
	}
	if _, malformed := host.ParseTarget(handOver.Kubeconfig); malformed != nil {
		return "key " + infrav1.HandOverKubeconfigKey + ": " + malformed.Error()
	}
	return ""
}

// grant lets the agents of approved hosts of the namespace read the Secret while it is
// signed. Who is on the list stays there, unless the approval is withdrawn or the Host is
// deleted otherwise than by a move: what ends with the signature, or with the Secret, is the
// rule of the Role, without which the list gives no right. The Role gets it once the list is
// right, and is there before: the manager may not bind anybody to a Role that is missing, or
// that says more than this rule.
func (r *HandOverReconciler) grant(ctx context.Context, secret *corev1.Secret, signed bool) error {
	key := client.ObjectKeyFromObject(secret)
	wanted := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{key.Name}, Verbs: []string{"get"}}}
	if err := r.applyRole(ctx, key, func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		if signed && equality.Semantic.DeepEqual(rules, wanted) {
			return rules
		}
		return nil
	}); err != nil {
		return err
	}
	if err := r.applyReaders(ctx, secret); err != nil || !signed {
		return err
	}
	return r.applyRole(ctx, key, func([]rbacv1.PolicyRule) []rbacv1.PolicyRule { return wanted })
}

// applyReaders brings the list of agents up to date. The list is there, and is read, before
// the Hosts are, and they are read past the cache before anybody comes on it: the agent of a
// Host that is deleted meanwhile was taken off before, or makes this write fail.
func (r *HandOverReconciler) applyReaders(ctx context.Context, secret *corev1.Secret) error {
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, binding, func() error {
		outlive(binding)
		return bind(ctx, r.Client, binding)
	})
	if err != nil {
		return fmt.Errorf("apply RoleBinding %s: %w", binding.Name, err)
	}
	agents, err := r.agents(ctx, r.Client, binding)
	if err != nil || equality.Semantic.DeepEqual(binding.Subjects, agents) {
		return err
	}
	if slices.ContainsFunc(agents, func(agent rbacv1.Subject) bool { return !slices.Contains(binding.Subjects, agent) }) {
		if agents, err = r.agents(ctx, r.APIReader, binding); err != nil {
			return err
		}
	}
	binding.Subjects = agents
	if err := r.Client.Update(ctx, binding); err != nil {
		return fmt.Errorf("update RoleBinding %s: %w", binding.Name, err)
	}
	return nil
}

// agents are those that belong on a list, by the Hosts that a reader finds.
func (r *HandOverReconciler) agents(ctx context.Context, reader client.Reader, list *rbacv1.RoleBinding) ([]rbacv1.Subject, error) {
	hosts := &infrav1.HostList{}
	if err := reader.List(ctx, hosts, client.InNamespace(list.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	return withAgents(list.Subjects, list.Namespace, hosts.Items), nil
}

// applyRole makes the Role by which the Secret is read, or changes its rules.
func (r *HandOverReconciler) applyRole(ctx context.Context, key client.ObjectKey, rules func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) error {
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, role, func() error {
		role.Rules = rules(role.Rules)
		outlive(role)
		return nil
	})
	if err != nil {
		return fmt.Errorf("apply Role %s: %w", role.Name, err)
	}
	return nil
}

// outlive lets an object stay when the Secret goes, whoever made that its owner, and brings it
// into the cache of the manager.
func outlive(o client.Object) {
	o.SetOwnerReferences(nil)
	o.SetLabels(map[string]string{infrav1.HostLabel: ""})
}

// withAgents adds the agents of the hosts that are approved to a list, which it sorts, and
// removes those of the hosts that are not, or are being deleted for good. Those of hosts
// that moved away stay. Nobody but agents of the namespace is on it, whoever wrote it.
func withAgents(known []rbacv1.Subject, namespace string, hosts []infrav1.Host) []rbacv1.Subject {
	agents := slices.DeleteFunc(slices.Clone(known), func(s rbacv1.Subject) bool {
		in, _, ok := host.ParseAgentUser(s.Name)
		return !ok || in != namespace || s.Kind != rbacv1.UserKind
	})
	refused := map[rbacv1.Subject]bool{}
	for i := range hosts {
		for _, agent := range subjects(&hosts[i]) {
			if host.Approved(&hosts[i]) && !deletedForGood(&hosts[i]) {
				agents = append(agents, agent)
			} else {
				refused[agent] = true
			}
		}
	}
	agents = slices.DeleteFunc(agents, func(agent rbacv1.Subject) bool { return refused[agent] })
	slices.SortFunc(agents, func(a, b rbacv1.Subject) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(agents)
}

// deletedForGood says whether a Host is being deleted, and not since it stands elsewhere now.
func deletedForGood(h *infrav1.Host) bool { return !h.DeletionTimestamp.IsZero() && !host.MovedAway(h) }

// revoke takes the right to read away when the Secret is gone. What is left of the list are
// the agents whose Hosts moved away: the others come on it by themselves. It reads past the
// cache, in which a list that is not there yet would be lost.
func (r *HandOverReconciler) revoke(ctx context.Context, key client.ObjectKey) error {
	binding := &rbacv1.RoleBinding{}
	err := r.APIReader.Get(ctx, key, binding)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get RoleBinding %s: %w", key.Name, err)
	}
	if err != nil || binding.RoleRef != roleOf(key.Name) {
		// Nobody is on the list, or it is none of the manager's.
		meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
		return errors.Join(client.IgnoreNotFound(r.Client.Delete(ctx, &rbacv1.Role{ObjectMeta: meta})), client.IgnoreNotFound(r.Client.Delete(ctx, &rbacv1.RoleBinding{ObjectMeta: meta})))
	}
	if err := r.applyRole(ctx, key, func([]rbacv1.PolicyRule) []rbacv1.PolicyRule { return nil }); err != nil {
		return err
	}
	hosts := &infrav1.HostList{}
	if err := r.Client.List(ctx, hosts, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list hosts: %w", err)
	}
	var here []rbacv1.Subject
	for i := range hosts.Items {
		if !host.MovedAway(&hosts.Items[i]) {
			here = append(here, subjects(&hosts.Items[i])...)
		}
	}
	return removeReaders(ctx, r.Client, binding, here)
}

// removeReaders takes agents off the list of those that may read a hand-over, and deletes a
// list that nobody is on.
func removeReaders(ctx context.Context, c client.Client, binding *rbacv1.RoleBinding, agents []rbacv1.Subject) error {
	if binding.RoleRef != roleOf(binding.Name) {
		return remove(ctx, c, binding) // no such list, though it has the name
	}
	left := slices.DeleteFunc(slices.Clone(binding.Subjects), func(s rbacv1.Subject) bool { return slices.Contains(agents, s) })
	var err error
	switch {
	case len(left) == 0:
		err = client.IgnoreNotFound(c.Delete(ctx, binding, client.Preconditions{UID: &binding.UID, ResourceVersion: &binding.ResourceVersion}))
	case len(left) < len(binding.Subjects):
		binding.Subjects = left
		err = c.Update(ctx, binding)
	}
	if err != nil {
		return fmt.Errorf("take agents off RoleBinding %s: %w", binding.Name, err)
	}
	return nil
}
