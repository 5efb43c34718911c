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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=slipway-hand-over,verbs=list;watch

// HandOverReconciler prepares what an operator ordered by Secret slipway-hand-over: it
// checks and signs it, and lets the agents of the namespace read it. The right to read
// outlives the Hosts, which go with the move: an agent that was away finds the
// hand-over when it returns. Requests name the Secret.
type HandOverReconciler struct {
	Client client.Client
	// APIReader reads the signing key past the cache, which doesn't hold it.
	APIReader client.Reader
	Recorder  events.EventRecorder

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
	if result.RequeueAfter, err = r.sign(ctx, secret); err != nil {
		return ctrl.Result{}, err
	}
	err = r.grant(ctx, secret)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: reconciler.ConflictRetry}, nil
	}
	return result, err
}

// sign signs what is in order, and tells what is not. It returns when to look again
// for a key.
func (r *HandOverReconciler) sign(ctx context.Context, secret *corev1.Secret) (retry time.Duration, _ error) {
	order := handOverOf(secret)
	changed := secret.DeepCopy()
	delete(changed.Data, infrav1.HandOverSignatureKey)
	delete(changed.Annotations, infrav1.HandOverProblemAnnotation)
	refuse := func(why string) {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, infrav1.HandOverProblemAnnotation, why)
	}
	if !order.ByHand() {
		key, err := r.signers.key(ctx, r.APIReader, secret.Namespace, true)
		if err != nil {
			return 0, err
		}
		_, malformed := host.ParseTarget(order.Kubeconfig)
		switch {
		case malformed != nil:
			refuse("key " + infrav1.HandOverKubeconfigKey + ": " + malformed.Error())
		case key == nil:
			retry = signerRetry
			refuse("Secret " + infrav1.HandOverSignerSecretName + " is missing, by which the agents of this namespace know a hand-over. Make it once, with 32 random bytes under the key " +
				infrav1.HandOverSignerSeedKey + "; on a plane, `slipway host token -n " + secret.Namespace + "` does it")
		default:
			changed.Data[infrav1.HandOverSignatureKey] = host.SignHandOver(key, secret.Namespace, order.Kubeconfig)
		}
	}
	problem := changed.Annotations[infrav1.HandOverProblemAnnotation]
	if bytes.Equal(order.Signature, changed.Data[infrav1.HandOverSignatureKey]) && secret.Annotations[infrav1.HandOverProblemAnnotation] == problem {
		return retry, nil
	}
	if err := r.Client.Patch(ctx, changed, client.MergeFrom(secret)); err != nil {
		return 0, fmt.Errorf("sign Secret %s: %w", secret.Name, err)
	}
	if problem != "" {
		r.Recorder.Eventf(secret, nil, corev1.EventTypeWarning, "NotSigned", "HandOver", "The hosts are not handed over: %.900s", problem)
	}
	return retry, nil
}

// grant lets the agents of all hosts of the namespace read the Secret. Nobody is taken
// off the list while the Secret is there.
func (r *HandOverReconciler) grant(ctx context.Context, secret *corev1.Secret) error {
	hosts := &infrav1.HostList{}
	if err := r.Client.List(ctx, hosts, client.InNamespace(secret.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list hosts: %w", err)
	}
	meta := metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}
	role := &rbacv1.Role{ObjectMeta: meta}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, role, func() error {
		role.Rules = []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret.Name}, Verbs: []string{"get"},
		}}
		return r.own(secret, role)
	})
	if err != nil {
		return fmt.Errorf("apply Role %s: %w", role.Name, err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta}
	_, err = controllerutil.CreateOrUpdate(ctx, r.Client, binding, func() error {
		binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}
		if agents := withAgents(binding.Subjects, hosts.Items); !equality.Semantic.DeepEqual(binding.Subjects, agents) {
			binding.Subjects = agents
		}
		return r.own(secret, binding)
	})
	if err != nil {
		return fmt.Errorf("apply RoleBinding %s: %w", binding.Name, err)
	}
	return nil
}

// withAgents adds the agents of hosts to a list, which it sorts.
func withAgents(known []rbacv1.Subject, hosts []infrav1.Host) []rbacv1.Subject {
	agents := slices.Clone(known)
	for i := range hosts {
		agents = append(agents, subjects(&hosts[i])...)
	}
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
