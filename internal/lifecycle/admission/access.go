package admission

import (
	"context"
	"fmt"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// access asks the API server who is who, and who may what.
type access struct {
	authentication authenticationclient.AuthenticationV1Interface
	authorization  authorizationclient.AuthorizationV1Interface

	mu  sync.Mutex
	own string
}

func newAccess(config *rest.Config) (*access, error) {
	authentication, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &access{authentication: authentication, authorization: authorization}, nil
}

// isEngine says whether a user is this program. All replicas are the same user.
func (a *access) isEngine(ctx context.Context, user authenticationv1.UserInfo) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.own == "" {
		review, err := a.authentication.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("find out who slipway-lifecycle is to the API server: %w", err)
		}
		a.own = review.Status.UserInfo.Username
	}
	return user.Username == a.own, nil
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
