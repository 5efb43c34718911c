package host

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// The rights on Secrets are in config/rbac/secrets_role.yaml, which is bound by namespace; the
// admission policy config/admission/token_policy.yaml limits patch and delete to tokens of hosts.

// retirePoll is how often it is looked whether a host that enrolled has reported.
const retirePoll = 5 * time.Second

// spend counts a machine that has no Host yet among those that its bootstrap token enrolls,
// or says why that enrolls it no more. The record is in the Secret of the token, and is
// written before the Host: whoever comes again after a crash is in it. Of two that come for
// the last use, the write of one is a conflict.
func (r *CSRReconciler) spend(ctx context.Context, request *request) (*refusal, error) {
	if request.token == "" {
		return nil, nil
	}
	secret, err := r.tokenSecret(ctx, request.token)
	if err != nil {
		return nil, err
	}
	if secret == nil {
		return &refusal{infrav1.TokenGoneReason, fmt.Sprintf("the bootstrap token %s was deleted; put a fresh one on the host: slipway host token %s -n %s", request.token, request.name, request.namespace)}, nil
	}
	uses, limited, err := host.ParseTokenUses(secret.Annotations)
	user := request.user
	switch {
	case err != nil:
		return &refusal{infrav1.TokenMalformedReason, fmt.Sprintf("Secret %s/%s: %v", secret.Namespace, secret.Name, err)}, nil
	case !limited, uses.Counts(user):
		return nil, nil
	case uses.Exhausted():
		return &refusal{infrav1.TokenUsedUpReason, fmt.Sprintf("the bootstrap token %s enrolls no further machine, its limit is %d; make one for this host: slipway host token %s -n %s",
			request.token, uses.Limit, request.name, request.namespace)}, nil
	}
	changed := secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, infrav1.TokenUsedByAnnotation, uses.With(user))
	if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, fmt.Errorf("count the host in Secret %s: %w", secret.Name, err)
	}
	return nil, nil
}

// retire deletes a token that enrolls nobody else, once each of its machines was seen with
// the certificate that it came for: they fetch it with the token. The request of whoever is
// last finds all others there; what a crash or a deleted Host leaves ends by its expiry.
func (r *CSRReconciler) retire(ctx context.Context, request *request) (ctrl.Result, error) {
	done, err := r.enrolled(ctx, request.user)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !done {
		return ctrl.Result{RequeueAfter: retirePoll}, nil
	}
	secret, err := r.tokenSecret(ctx, request.token)
	if err != nil || secret == nil {
		return ctrl.Result{}, err
	}
	uses, limited, err := host.ParseTokenUses(secret.Annotations)
	if err != nil || !limited || len(uses.UsedBy) == 0 || !uses.Exhausted() {
		return ctrl.Result{}, nil //nolint:nilerr // who is enrolled is told of it
	}
	for _, user := range uses.UsedBy {
		if done, err := r.enrolled(ctx, user); err != nil || !done {
			return ctrl.Result{}, err
		}
	}
	err = r.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: reconciler.ConflictRetry}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("delete the used-up Secret %s: %w", secret.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted bootstrap token, which is used up", "token", request.token, "uses", uses.Limit)
	return ctrl.Result{}, nil
}

// enrolled says whether the agent needs the token that enrolled it no more: it reported with
// its certificate, or another machine has got its name.
func (r *CSRReconciler) enrolled(ctx context.Context, user string) (bool, error) {
	namespace, name, ok := host.ParseAgentUser(user)
	if !ok {
		return true, nil
	}
	h := &infrav1.Host{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, h); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	another := h.Spec.HostID != "" && infrav1.AgentUser(namespace, name, h.Spec.HostID) != user
	return another || h.Status.BootID != "", nil
}

// tokenSecret reads the Secret of a bootstrap token past the cache; nil when there is none.
func (r *CSRReconciler) tokenSecret(ctx context.Context, id string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: bootstraputil.BootstrapTokenSecretName(id)}, secret)
	switch {
	case apierrors.IsNotFound(err), err == nil && !secret.DeletionTimestamp.IsZero():
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get the Secret of bootstrap token %s: %w", id, err)
	}
	return secret, nil
}
