package host

import (
	"bytes"
	"context"
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

// HandOverReconciler prepares what an operator ordered by Secret slipway-hand-over: it
// checks and signs it, and lets the agents of approved hosts of the namespace read it,
// until it expires. The right to read outlives the Hosts, which go with the move: an
// agent that was away finds the hand-over when it returns. Requests name the Secret.
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
	err := r.Client.Get(ctx, req.NamespacedName, secret)
	switch {
	case apierrors.IsNotFound(err), err == nil && !secret.DeletionTimestamp.IsZero():
		return ctrl.Result{}, r.revoke(ctx, req.NamespacedName)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get Secret %s: %w", req.Name, err)
	}
	// An agent that finds the hand-over must be able to trust it.
	var result ctrl.Result
	signed, retry, err := r.sign(ctx, secret)
	if err != nil {
		return ctrl.Result{}, err
	}
	result.RequeueAfter = retry
	err = r.grant(ctx, secret, signed)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: reconciler.ConflictRetry}, nil
	}
	return result, err
}

// sign signs what is in order, and tells what is not. It returns whether the Secret is
// signed, and when to look again: for a key, or at the end of the hand-over.
func (r *HandOverReconciler) sign(ctx context.Context, secret *corev1.Secret) (signed bool, retry time.Duration, _ error) {
	order := host.ReadHandOver(secret.Data)
	changed := secret.DeepCopy()
	delete(changed.Data, infrav1.HandOverSignatureKey)
	delete(changed.Annotations, infrav1.HandOverProblemAnnotation)
	refuse := func(why string) {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, infrav1.HandOverProblemAnnotation, why)
	}
	now := r.Clock.Now()
	switch why := faultOf(secret, order, now); {
	case why != "":
		refuse(why)
	case order.ByHand():
		retry = order.Expires.Sub(now)
	default:
		key, err := r.signers.key(ctx, r.APIReader, secret.Namespace, true)
		if err != nil {
			return false, 0, err
		}
		if key == nil {
			retry = signerRetry
			refuse("Secret " + infrav1.HandOverSignerSecretName + " is missing, by which the agents of this namespace know a hand-over. Make it once, with 32 random bytes under the key " +
				infrav1.HandOverSignerSeedKey + "; on a plane, `slipway host token -n " + secret.Namespace + "` does it")
		} else {
			changed.Data[infrav1.HandOverSignatureKey] = host.SignHandOver(key, secret.Namespace, order.Kubeconfig)
			signed, retry = true, order.Expires.Sub(now)
		}
	}
	problem := changed.Annotations[infrav1.HandOverProblemAnnotation]
	if bytes.Equal(order.Signature, changed.Data[infrav1.HandOverSignatureKey]) && secret.Annotations[infrav1.HandOverProblemAnnotation] == problem {
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
func faultOf(secret *corev1.Secret, order host.HandOver, now time.Time) string {
	const again = "; delete it and make it as docs/clusterctl.md#move tells"
	switch {
	case secret.Type != infrav1.HandOverSecretType:
		return fmt.Sprintf("its type is %s, not %s%s", secret.Type, infrav1.HandOverSecretType, again)
	case secret.Labels[infrav1.PurposeLabel] != infrav1.HandOverPurpose:
		return fmt.Sprintf("label %s=%s is missing, by which it says what it is for", infrav1.PurposeLabel, infrav1.HandOverPurpose)
	case order.Expires.IsZero():
		return "key " + infrav1.HandOverExpirationKey + ": want the time at which the hand-over ends, such as " + now.Add(time.Hour).UTC().Format(time.RFC3339)
	case order.Expired(now):
		return "key " + infrav1.HandOverExpirationKey + ": the hand-over ended at " + order.Expires.UTC().Format(time.RFC3339) + "; write a later time there, and see that the token is still good"
	case order.ByHand():
		return ""
	}
	if _, malformed := host.ParseTarget(order.Kubeconfig); malformed != nil {
		return "key " + infrav1.HandOverKubeconfigKey + ": " + malformed.Error()
	}
	return ""
}

// grant lets the agents of approved hosts of the namespace read the Secret while it is
// signed. Who is on the list stays there as long as this Secret does, unless the approval
// is withdrawn: what ends with the signature is the Role, so that who was away is on it
// when the Secret is signed again.
func (r *HandOverReconciler) grant(ctx context.Context, secret *corev1.Secret, signed bool) error {
	hosts := &infrav1.HostList{}
	if err := r.Client.List(ctx, hosts, client.InNamespace(secret.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list hosts: %w", err)
	}
	meta := metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}
	if err := r.applyRole(ctx, secret, &rbacv1.Role{ObjectMeta: meta}, signed); err != nil {
		return err
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, binding, func() error {
		binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}
		known := binding.Subjects
		if !metav1.IsControlledBy(binding, secret) {
			// It is of a Secret before this one, which an earlier version may have let all
			// agents read.
			known = nil
		}
		if agents := withAgents(known, hosts.Items); !equality.Semantic.DeepEqual(binding.Subjects, agents) {
			binding.Subjects = agents
		}
		return r.own(secret, binding)
	})
	if err != nil {
		return fmt.Errorf("apply RoleBinding %s: %w", binding.Name, err)
	}
	return nil
}

// applyRole makes the Role by which the Secret is read, or takes it away.
func (r *HandOverReconciler) applyRole(ctx context.Context, secret *corev1.Secret, role *rbacv1.Role, readable bool) error {
	if !readable {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, role)); err != nil {
			return fmt.Errorf("delete Role %s: %w", role.Name, err)
		}
		return nil
	}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, role, func() error {
		role.Rules = []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret.Name}, Verbs: []string{"get"},
		}}
		return r.own(secret, role)
	})
	if err != nil {
		return fmt.Errorf("apply Role %s: %w", role.Name, err)
	}
	return nil
}

// withAgents adds the agents of the hosts that are approved to a list, which it sorts, and
// removes those of the hosts that are not. Those of hosts that moved away stay.
func withAgents(known []rbacv1.Subject, hosts []infrav1.Host) []rbacv1.Subject {
	agents := slices.Clone(known)
	refused := map[rbacv1.Subject]bool{}
	for i := range hosts {
		for _, agent := range subjects(&hosts[i]) {
			if host.Approved(&hosts[i]) {
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

// own ties an object to the Secret, and brings it into the cache of the manager.
func (r *HandOverReconciler) own(secret *corev1.Secret, o client.Object) error {
	o.SetLabels(map[string]string{infrav1.HostLabel: ""})
	return controllerutil.SetControllerReference(secret, o, r.Client.Scheme())
}

// revoke does what the garbage collector does, at once.
func (r *HandOverReconciler) revoke(ctx context.Context, key client.ObjectKey) error {
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	for _, o := range []client.Object{&rbacv1.RoleBinding{ObjectMeta: meta}, &rbacv1.Role{ObjectMeta: meta}} {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, o)); err != nil {
			return fmt.Errorf("delete %T %s: %w", o, key.Name, err)
		}
	}
	return nil
}
