package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Workload talks to the API server of a workload cluster.
type Workload struct {
	coordination, rbac rest.Interface
	http               *http.Client
}

// NewWorkload makes a client of a configuration. The caller bounds its requests.
func NewWorkload(config *rest.Config) (*Workload, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeJSON
	config.NegotiatedSerializer = codecs.WithoutConversion()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	w := &Workload{http: httpClient}
	if w.coordination, err = restClient(config, coordinationv1.SchemeGroupVersion, httpClient); err != nil {
		return nil, err
	}
	w.rbac, err = restClient(config, rbacv1.SchemeGroupVersion, httpClient)
	return w, err
}

// Close ends the connections.
func (w *Workload) Close() { w.http.CloseIdleConnections() }

// Ready returns an error unless the server says that it is ready to serve.
func (w *Workload) Ready(ctx context.Context) error {
	return w.coordination.Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error()
}

// GetLease reads a Lease from the server's cache: it may be a little out of date,
// and costs the cluster's etcd nothing.
func (w *Workload) GetLease(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, w.coordination.Get().Namespace(namespace).Resource("leases").Name(name).
		Param("resourceVersion", "0").MaxRetries(0).Do(ctx).Into(lease)
}

// UpdateLease writes a Lease and returns what the server stored.
func (w *Workload) UpdateLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	stored := &coordinationv1.Lease{}
	return stored, w.coordination.Put().Namespace(lease.Namespace).Resource("leases").Name(lease.Name).
		MaxRetries(0).Body(lease).Do(ctx).Into(stored)
}

// EnsureLease creates a Lease unless there is one.
func (w *Workload) EnsureLease(ctx context.Context, lease *coordinationv1.Lease) error {
	err := w.coordination.Post().Namespace(lease.Namespace).Resource("leases").Body(lease).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// ApplyRole applies a Role.
func (w *Workload) ApplyRole(ctx context.Context, role *rbacv1.Role) error {
	return w.apply(ctx, "roles", role.Namespace, role.Name, role)
}

// ApplyRoleBinding applies a RoleBinding.
func (w *Workload) ApplyRoleBinding(ctx context.Context, binding *rbacv1.RoleBinding) error {
	return w.apply(ctx, "rolebindings", binding.Namespace, binding.Name, binding)
}

func (w *Workload) apply(ctx context.Context, resource, namespace, name string, o runtime.Object) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return w.rbac.Patch(types.ApplyPatchType).Namespace(namespace).Resource(resource).Name(name).
		Param("fieldManager", FieldManager).Param("force", "true").Body(body).Do(ctx).Error()
}
