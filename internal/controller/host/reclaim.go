package host

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// reclaim is for a Role or RoleBinding that could not be made since one of its name is
// there: without HostLabel the cache does not have it, so that to make it fails for ever, and
// nobody takes rights away that it grants. One that is the manager's gets the label back,
// with what it says; nil says that none is. Any other goes: the name is the manager's. So does
// a Role, whose rules are known: to label it would be refused, as any update but of its owners
// and finalizers, if it grants more than the manager has. One with the label is the cache's to
// bring; o then is what is there, and otherwise without meaning.
func reclaim(ctx context.Context, c client.Client, live client.Reader, o client.Object, own func() bool) error {
	if err := live.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return client.IgnoreNotFound(err)
	}
	labels := o.GetLabels()
	if _, cached := labels[infrav1.HostLabel]; cached {
		return nil
	}
	if _, isRole := o.(*rbacv1.Role); isRole || own == nil || !own() {
		return remove(ctx, c, o)
	}
	if labels == nil {
		labels = map[string]string{}
	}
	labels[infrav1.HostLabel] = ""
	o.SetLabels(labels)
	return ignoreConflict(c.Update(ctx, o), "label", o)
}

// remove deletes what was read, and nothing that took its place or was changed since.
func remove(ctx context.Context, c client.Client, o client.Object) error {
	uid, version := o.GetUID(), o.GetResourceVersion()
	err := c.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version})
	return ignoreConflict(client.IgnoreNotFound(err), "delete", o)
}

// roleOf is what a RoleBinding of the manager binds: the Role of its name.
func roleOf(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}
}

// bind has a RoleBinding bind the Role of its name. What one binds can't be changed: one that
// is there and binds anything else goes, which is a conflict, so that the next try makes it.
func bind(ctx context.Context, c client.Client, binding *rbacv1.RoleBinding) error {
	switch binding.RoleRef {
	case roleOf(binding.Name):
		return nil
	case rbacv1.RoleRef{}:
		binding.RoleRef = roleOf(binding.Name)
		return nil
	}
	if err := remove(ctx, c, binding); err != nil {
		return err
	}
	return apierrors.NewConflict(rbacv1.Resource("rolebindings"), binding.Name, fmt.Errorf("it bound %s %s and was deleted", binding.RoleRef.Kind, binding.RoleRef.Name))
}

func ignoreConflict(err error, verb string, o client.Object) error {
	if err == nil || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("%s %T %s: %w", verb, o, o.GetName(), err)
}
