package management

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Right is a verb on a resource that a user lacks.
type Right struct {
	// User as the cluster knows it; empty when it does not tell.
	User string
	// Verb as in RBAC.
	Verb     string
	Resource schema.GroupResource
	// Namespace is empty for all namespaces, and for what has none.
	Namespace string
	// Namespaced is false for what has no namespace.
	Namespaced bool
	// Name of the one object; empty for all.
	Name string
}

// MissingRightError wraps an error of the API server with the right that is missing.
type MissingRightError struct {
	Right
	err error
}

func (e *MissingRightError) Error() string {
	who := "you"
	if e.User != "" {
		who = fmt.Sprintf("user %q", e.User)
	}
	what := e.Resource.String()
	if e.Name != "" {
		what += " " + e.Name
	}
	switch {
	case e.Namespace != "":
		what += " in namespace " + e.Namespace
	case e.Namespaced:
		what += " in all namespaces"
	}
	return fmt.Sprintf("%s may not %s %s", who, e.Verb, what)
}

// Unwrap returns the error of the API server.
func (e *MissingRightError) Unwrap() error { return e.err }

// withRights returns c with errors that name the right that is missing.
func (c *Cluster) withRights(plain client.WithWatch) client.WithWatch {
	return interceptor.NewClient(plain, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return missing(ctx, c, c.Get(ctx, key, obj, opts...), "get", obj, key)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			return missing(ctx, c, err, "list", list, client.ObjectKey{Namespace: namespaceOf(opts)})
		},
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			w, err := c.Watch(ctx, list, opts...)
			return w, missing(ctx, c, err, "watch", list, client.ObjectKey{Namespace: namespaceOf(opts)})
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return missing(ctx, c, c.Create(ctx, obj, opts...), "create", obj, client.ObjectKey{Namespace: obj.GetNamespace()})
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return missing(ctx, c, c.Update(ctx, obj, opts...), "update", obj, client.ObjectKeyFromObject(obj))
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return missing(ctx, c, c.Patch(ctx, obj, patch, opts...), "patch", obj, client.ObjectKeyFromObject(obj))
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return missing(ctx, c, c.Delete(ctx, obj, opts...), "delete", obj, client.ObjectKeyFromObject(obj))
		},
	})
}

func namespaceOf(opts []client.ListOption) string {
	return (&client.ListOptions{}).ApplyOptions(opts).Namespace
}

// missing wraps err when it is for want of a right. Admission refuses with the same
// code, so the cluster is asked; the text of an error is not read.
func missing(ctx context.Context, c client.Client, err error, verb string, obj runtime.Object, key client.ObjectKey) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	right, mapErr := rightTo(c, verb, obj, key)
	if mapErr != nil {
		return err
	}
	if !right.lacks(ctx, c) {
		// An apply of what is not there creates it.
		if right.Verb, right.Name = "create", ""; verb != "patch" || !right.lacks(ctx, c) {
			return err
		}
	}
	self := &authenticationv1.SelfSubjectReview{}
	if selfErr := c.Create(ctx, self); selfErr == nil {
		right.User = self.Status.UserInfo.Username
	}
	return &MissingRightError{Right: right, err: err}
}

// lacks asks the cluster.
func (r Right) lacks(ctx context.Context, c client.Client) bool {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.Verb, Group: r.Resource.Group, Resource: r.Resource.Resource, Namespace: r.Namespace, Name: r.Name,
		},
	}}
	return c.Create(ctx, review) == nil && !review.Status.Allowed
}

// rightTo is what the verb on an object, or on the objects of a list, takes.
func rightTo(c client.Client, verb string, obj runtime.Object, key client.ObjectKey) (Right, error) {
	kind, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return Right{}, err
	}
	if meta.IsListType(obj) {
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	}
	mapping, err := c.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return Right{}, err
	}
	return Right{
		Verb: verb, Resource: mapping.Resource.GroupResource(), Name: key.Name, Namespace: key.Namespace,
		Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
	}, nil
}

// missingRights are all in a tree of errors, each once.
func missingRights(err error) []Right {
	var found []Right
	seen := map[Right]bool{}
	var walk func(error)
	walk = func(err error) {
		switch e := err.(type) { //nolint:errorlint // this is the walk that errors.As does for one
		case *MissingRightError:
			if !seen[e.Right] {
				seen[e.Right], found = true, append(found, e.Right)
			}
		case interface{ Unwrap() []error }:
			for _, sub := range e.Unwrap() {
				walk(sub)
			}
		case interface{ Unwrap() error }:
			walk(errors.Unwrap(err))
		}
	}
	walk(err)
	return found
}
