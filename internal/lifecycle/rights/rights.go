package rights

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// Checker reviews with the API server who the engine is and what it may do. Every user may request
// that. It is safe for concurrent use.
type Checker struct {
	authentication authenticationclient.AuthenticationV1Interface
	authorization  authorizationclient.AuthorizationV1Interface

	mu  sync.Mutex
	own string
}

// New returns the Checker of who has the configuration.
func New(config *rest.Config) (*Checker, error) {
	authentication, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Checker{authentication: authentication, authorization: authorization}, nil
}

// User returns the engine's name, which is that of all its replicas.
func (c *Checker) User(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own == "" {
		review, err := c.authentication.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return "", fmt.Errorf("find out who slipway-lifecycle is to the API server: %w", err)
		}
		c.own = review.Status.UserInfo.Username
	}
	return c.own, nil
}

// Namespace returns the namespace of the engine's ServiceAccount; empty when it is no
// ServiceAccount.
func (c *Checker) Namespace(ctx context.Context) (string, error) {
	user, err := c.User(ctx)
	if err != nil {
		return "", err
	}
	namespace, _, err := serviceaccount.SplitUsername(user)
	if err != nil {
		return "", nil //nolint:nilerr // it is another sort of user
	}
	return namespace, nil
}

// Missing returns those of the rights that the engine has not, nil when it has all.
func (c *Checker) Missing(ctx context.Context, rights []Right) (*MissingError, error) {
	missing := &MissingError{}
	for _, r := range rights {
		review, err := c.authorization.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &r},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("find out what slipway-lifecycle may do: %w", err)
		}
		if !review.Status.Allowed {
			missing.Rights = append(missing.Rights, r)
		}
	}
	if len(missing.Rights) == 0 {
		return nil, nil
	}
	var err error
	missing.User, err = c.User(ctx)
	return missing, err
}

// MissingError says what the engine may not do, and how it is granted.
type MissingError struct {
	// User is who the engine is.
	User string
	// Rights that it has not.
	Rights []Right
	// Err is the refusal; nil when nothing was tried.
	Err error
}

// Error names the rights by namespace and role, with the command that grants them.
func (e *MissingError) Error() string {
	type place struct{ namespace, role string }
	var places []place
	may := map[place][]string{}
	for _, r := range e.Rights {
		at := place{r.Namespace, roleOf(r.Group, r.Resource)}
		if !slices.Contains(places, at) {
			places = append(places, at)
		}
		may[at] = append(may[at], name(r))
	}
	parts := make([]string, len(places))
	for i, at := range places {
		parts[i] = fmt.Sprintf("slipway-lifecycle may not %s in namespace %s; grant it by: kubectl create rolebinding %s -n %s --clusterrole=%s %s",
			strings.Join(may[at], ", "), at.namespace, at.role, at.namespace, at.role, subject(e.User))
	}
	return strings.Join(parts, "; ")
}

// Unreached tells package step that nothing is known of what the step works on: it is tried
// again when the right may have come.
func (*MissingError) Unreached() bool { return true }

// Unwrap returns the refusal.
func (e *MissingError) Unwrap() error { return e.Err }

// IsMissing says whether err is, or wraps, a *MissingError.
func IsMissing(err error) bool {
	var missing *MissingError
	return errors.As(err, &missing)
}

func name(r Right) string {
	what := r.Resource
	if r.Subresource != "" {
		what += "/" + r.Subresource
	}
	if r.Name != "" {
		what += " " + r.Name
	}
	return r.Verb + " " + what
}

// subject is a user in the words of kubectl create rolebinding.
func subject(user string) string {
	if namespace, account, err := serviceaccount.SplitUsername(user); err == nil {
		return "--serviceaccount=" + namespace + ":" + account
	}
	return "--user=" + user
}

// Right is what the engine has to be allowed, in a namespace.
type Right = authorizationv1.ResourceAttributes

// The ClusterRoles that are bound where policies need them; see config/lifecycle/rbac.
const (
	// StepsRole is for the namespace of a policy with steps other than gates, and for
	// those that export.namespace names.
	StepsRole = "slipway-lifecycle-steps"
	// JobsRole is for the namespace of a policy with Jobs in the management cluster.
	JobsRole = "slipway-lifecycle-jobs"
)

// roleOf returns the ClusterRole that has a right on a resource; empty when none of them has.
func roleOf(group, resource string) string {
	switch (schema.GroupResource{Group: group, Resource: resource}) {
	case schema.GroupResource{Resource: "secrets"}, schema.GroupResource{Resource: "configmaps"}:
		return StepsRole
	case schema.GroupResource{Resource: "pods"}, schema.GroupResource{Group: batchv1.GroupName, Resource: "jobs"}:
		return JobsRole
	}
	return ""
}

// Distinct returns rights, each once and by namespaces.
func Distinct(all []Right) []Right {
	var once []Right
	for _, r := range all {
		if !slices.Contains(once, r) {
			once = append(once, r)
		}
	}
	slices.SortStableFunc(once, func(a, b Right) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return once
}

// Verbs returns a right for each verb on the same.
func Verbs(on Right, verbs ...string) []Right {
	rights := make([]Right, len(verbs))
	for i, verb := range verbs {
		rights[i] = on
		rights[i].Verb = verb
	}
	return rights
}

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// Enforced says whether the API server asks about the Clusters of a namespace that have no
// topology, which an administrator of Namespaces decides by a label. Nothing watches it,
// so the reader reads live.
func Enforced(ctx context.Context, reader client.Reader, name string) (bool, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return false, fmt.Errorf("read Namespace %s: %w", name, err)
	}
	return namespace.Labels[lifecyclev1.EnforcementLabel] == string(lifecyclev1.EnforcementAll), nil
}
