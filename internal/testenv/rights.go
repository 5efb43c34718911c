package testenv

import (
	"context"
	"fmt"
	"io/fs"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// As returns a config by which the API server knows its caller as the user, who is
// authenticated and in the groups.
func (e *Env) As(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(e.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append([]string{"system:authenticated"}, groups...)}
	return config
}

// Grant gives a user the ClusterRoles of files of the release, and nothing else. The
// authorizer learns of it a moment later.
func (e *Env) Grant(ctx context.Context, user string, release fs.ReadFileFS, files ...string) error {
	for _, file := range files {
		data, err := release.ReadFile(file)
		if err != nil {
			return err
		}
		role := &rbacv1.ClusterRole{}
		if err := yaml.UnmarshalStrict(data, role); err != nil {
			return err
		}
		for _, o := range []client.Object{role, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}} {
			if err := e.Client.Create(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// GrantIn gives a user what the rules say in a namespace, and returns once the authorizer
// knows of each. A rule lists what it allows: no "*".
func (e *Env) GrantIn(t testing.TB, user, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "granted-"}, Rules: rules}
	create(t, e.Client, role)
	e.bind(t, user, namespace, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}, rules)
}

// BindIn gives a user what a ClusterRole says in a namespace, as GrantIn does.
func (e *Env) BindIn(t testing.TB, user, namespace, clusterRole string) {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := e.Client.Get(t.Context(), client.ObjectKey{Name: clusterRole}, role); err != nil {
		t.Fatal(err)
	}
	e.bind(t, user, namespace, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole}, role.Rules)
}

func (e *Env) bind(t testing.TB, user, namespace string, role rbacv1.RoleRef, rules []rbacv1.PolicyRule) {
	t.Helper()
	create(t, e.Client, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "granted-"}, RoleRef: role,
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	authorization, err := authorizationclient.NewForConfig(e.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range requests(namespace, rules) {
		what := fmt.Sprintf("%s may %s %s in %s", user, asked.Verb, asked.Resource, namespace)
		poll.Until(t, what, func() error {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &asked}}
			review, err := authorization.SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if !review.Status.Allowed {
				return fmt.Errorf("denied: %s", review.Status.Reason)
			}
			return nil
		})
	}
}

// requests lists all that the rules allow.
func requests(namespace string, rules []rbacv1.PolicyRule) []authorizationv1.ResourceAttributes {
	var all []authorizationv1.ResourceAttributes
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					for _, name := range names {
						all = append(all, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource, Name: name})
					}
				}
			}
		}
	}
	return all
}
