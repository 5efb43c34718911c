package rights

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client returns a client of the management cluster that says by a *MissingError when it is
// refused for want of a right, and how that is granted.
func (c *Checker) Client(inner client.Client) client.Client {
	return explainedClient{inner, explainedReader{inner, c}}
}

// Reader is Client for who only reads.
func (c *Checker) Reader(inner client.Reader) client.Reader { return explainedReader{inner, c} }

type explainedReader struct {
	inner   client.Reader
	checker *Checker
}

// Get implements client.Reader.
func (r explainedReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return r.checker.explain(ctx, "get", key.Namespace, r.inner.Get(ctx, key, object, options...))
}

// List implements client.Reader.
func (r explainedReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	in := (&client.ListOptions{}).ApplyOptions(options)
	return r.checker.explain(ctx, "list", in.Namespace, r.inner.List(ctx, list, options...))
}

type explainedClient struct {
	client.Client
	reader explainedReader
}

// Get implements client.Reader.
func (c explainedClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return c.reader.Get(ctx, key, object, options...)
}

// List implements client.Reader.
func (c explainedClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return c.reader.List(ctx, list, options...)
}

// Create implements client.Writer.
func (c explainedClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return c.reader.checker.explain(ctx, "create", object.GetNamespace(), c.Client.Create(ctx, object, options...))
}

// Update implements client.Writer.
func (c explainedClient) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return c.reader.checker.explain(ctx, "update", object.GetNamespace(), c.Client.Update(ctx, object, options...))
}

// Patch implements client.Writer.
func (c explainedClient) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return c.reader.checker.explain(ctx, "patch", object.GetNamespace(), c.Client.Patch(ctx, object, patch, options...))
}

// Delete implements client.Writer.
func (c explainedClient) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	return c.reader.checker.explain(ctx, "delete", object.GetNamespace(), c.Client.Delete(ctx, object, options...))
}

// explain finds out whether a refusal is RBAC's: admission, a quota among it, refuses with
// the same status. What cannot be found out stays the error that it was.
func (c *Checker) explain(ctx context.Context, verb, namespace string, err error) error {
	var status apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return err
	}
	of := status.Status().Details
	if roleOf(of.Group, of.Kind) == "" {
		return err
	}
	missing, unknown := c.Missing(ctx, []Right{{Namespace: namespace, Verb: verb, Group: of.Group, Resource: of.Kind, Name: of.Name}})
	if unknown != nil || missing == nil {
		return err
	}
	missing.Err = err
	return missing
}
