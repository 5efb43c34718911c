package admission

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/policy"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
)

// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// access reviews with the API server who a user is and what they may do.
type access struct {
	authorization authorizationclient.AuthorizationV1Interface
	// own are the rights of the engine itself.
	own *rights.Checker
}

func newAccess(config *rest.Config, own *rights.Checker) (*access, error) {
	authorization, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &access{authorization: authorization, own: own}, nil
}

// isEngine says whether a user is this program. All replicas are the same user.
func (a *access) isEngine(ctx context.Context, user authenticationv1.UserInfo) (bool, error) {
	own, err := a.own.User(ctx)
	return err == nil && user.Username == own, err
}

// require returns a Forbidden error, which names the field, unless the user of the
// request may do what the attributes say.
func (a *access) require(ctx context.Context, at *field.Path, attributes authorizationv1.ResourceAttributes) error {
	allowed, err := a.allowed(ctx, attributes)
	if err != nil || allowed {
		return err
	}
	request, err := ctrladmission.RequestFromContext(ctx)
	if err != nil {
		return err
	}
	resource := schema.GroupResource{Group: attributes.Group, Resource: attributes.Resource}
	return apierrors.NewForbidden(resource, attributes.Name,
		fmt.Errorf("%s: %q may not %s %s in namespace %s, which this needs; ask for a Role with that verb", at, request.UserInfo.Username, attributes.Verb, resource, attributes.Namespace))
}

// allowed says whether the user of the request may do what the attributes say.
func (a *access) allowed(ctx context.Context, attributes authorizationv1.ResourceAttributes) (bool, error) {
	request, err := ctrladmission.RequestFromContext(ctx)
	if err != nil {
		return false, apierrors.NewBadRequest(fmt.Sprintf("expected an admission request in the context: %v", err))
	}
	user := request.UserInfo
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	review, err := a.authorization.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: &attributes, User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("find out what %s may do: %w", user.Username, err)
	}
	return review.Status.Allowed, nil
}

// SetupWithManager registers the webhooks with the server of the manager. They answer
// in every replica. An engine that watches one namespace, all when empty, admits no
// policies elsewhere, and holds no other namespace's deletion back. own are the engine's
// rights, which a policy's author is shown when they do not suffice.
func SetupWithManager(mgr ctrl.Manager, namespace string, own *rights.Checker) error {
	access, err := newAccess(mgr.GetConfig(), own)
	if err != nil {
		return fmt.Errorf("set up the webhooks: %w", err)
	}
	gates := &deletionGates{namespace: namespace, reader: mgr.GetAPIReader()}
	validator := &policyValidator{namespace: namespace, client: mgr.GetClient(), reader: mgr.GetAPIReader(), access: access, gates: gates, guard: &policy.Guard{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader()}, now: time.Now}
	if err := ctrl.NewWebhookManagedBy(mgr, &lifecyclev1.LifecyclePolicy{}).WithValidator(validator).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of LifecyclePolicies: %w", err)
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &corev1.Namespace{}).WithValidator(namespaceKeeper{gates}).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of Namespaces: %w", err)
	}
	keeper := clusterKeeper{deletionGates: gates, access: access, now: time.Now}
	if err := ctrl.NewWebhookManagedBy(mgr, &clusterv1.Cluster{}).WithValidator(keeper).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of Clusters: %w", err)
	}
	decider := &runDecider{access: access, now: time.Now}
	if err := ctrl.NewWebhookManagedBy(mgr, &lifecyclev1.LifecycleRun{}).WithDefaulter(decider).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of LifecycleRuns: %w", err)
	}
	return nil
}
