package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// FieldManager owns the agent's fields in the status of its Host.
const FieldManager = "slipway-agent"

// requestTimeout bounds every request but a watch: a link that was cut must not
// hold a heartbeat.
const requestTimeout = 10 * time.Second

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func init() {
	scheme.AddKnownTypes(infrav1.GroupVersion, &infrav1.Host{}, &infrav1.HostLogRequest{})
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Secret{})
	scheme.AddKnownTypes(coordinationv1.SchemeGroupVersion, &coordinationv1.Lease{})
	scheme.AddKnownTypes(rbacv1.SchemeGroupVersion, &rbacv1.Role{}, &rbacv1.RoleBinding{})
	scheme.AddKnownTypes(certificatesv1.SchemeGroupVersion, &certificatesv1.CertificateSigningRequest{})
	for _, gv := range []schema.GroupVersion{infrav1.GroupVersion, corev1.SchemeGroupVersion, coordinationv1.SchemeGroupVersion, certificatesv1.SchemeGroupVersion, rbacv1.SchemeGroupVersion} {
		metav1.AddToGroupVersion(scheme, gv)
	}
}

// Client talks to the management cluster. It is safe for concurrent use.
type Client struct {
	infra, core, coordination, certificates rest.Interface
}

// New makes a client of a configuration. All resources share its connections.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 20, 50
	config.ContentType = runtime.ContentTypeJSON
	config.NegotiatedSerializer = codecs.WithoutConversion()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	c := &Client{}
	for gv, into := range map[schema.GroupVersion]*rest.Interface{
		infrav1.GroupVersion: &c.infra, corev1.SchemeGroupVersion: &c.core,
		coordinationv1.SchemeGroupVersion: &c.coordination, certificatesv1.SchemeGroupVersion: &c.certificates,
	} {
		if *into, err = restClient(config, gv, httpClient); err != nil {
			return nil, fmt.Errorf("make a client for %s: %w", gv, err)
		}
	}
	return c, nil
}

func restClient(config *rest.Config, gv schema.GroupVersion, httpClient *http.Client) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &gv, "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	return rest.RESTClientForConfigAndClient(config, httpClient)
}

// WatchHost streams the Host from its current state on.
func (c *Client) WatchHost(ctx context.Context, namespace, name string, timeout time.Duration) (watch.Interface, error) {
	return c.infra.Get().Namespace(namespace).Resource("hosts").
		Param("watch", "true").
		Param("fieldSelector", "metadata.name="+name).
		Param("timeoutSeconds", fmt.Sprint(int(timeout.Seconds()))).
		Watch(ctx)
}

// GetHost reads a Host.
func (c *Client) GetHost(ctx context.Context, namespace, name string) (*infrav1.Host, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	host := &infrav1.Host{}
	return host, c.infra.Get().Namespace(namespace).Resource("hosts").Name(name).Do(ctx).Into(host)
}

// ApplyHostStatus applies the agent's part of the status. A status patch creates no
// Host: of one that is gone it fails with NotFound.
func (c *Client) ApplyHostStatus(ctx context.Context, host *infrav1.Host) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := json.Marshal(host)
	if err != nil {
		return err
	}
	return c.infra.Patch(types.ApplyPatchType).Namespace(host.Namespace).Resource("hosts").Name(host.Name).SubResource("status").
		Param("fieldManager", FieldManager).Param("force", "true").
		Body(body).Do(ctx).Error()
}

// GetLogRequest reads a HostLogRequest.
func (c *Client) GetLogRequest(ctx context.Context, namespace, name string) (*infrav1.HostLogRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request := &infrav1.HostLogRequest{}
	return request, c.infra.Get().Namespace(namespace).Resource("hostlogrequests").Name(name).Do(ctx).Into(request)
}

// PatchLogRequest writes the fields of the status of a HostLogRequest that are set.
func (c *Client) PatchLogRequest(ctx context.Context, namespace, name string, status infrav1.HostLogRequestStatus) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	return c.infra.Patch(types.MergePatchType).Namespace(namespace).Resource("hostlogrequests").Name(name).SubResource("status").
		Param("fieldManager", FieldManager).Body(body).Do(ctx).Error()
}

// GetLease reads a Lease.
func (c *Client) GetLease(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	lease := &coordinationv1.Lease{}
	return lease, c.coordination.Get().Namespace(namespace).Resource("leases").Name(name).Do(ctx).Into(lease)
}

// UpdateLease writes a Lease and returns what the server stored.
func (c *Client) UpdateLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stored := &coordinationv1.Lease{}
	return stored, c.coordination.Put().Namespace(lease.Namespace).Resource("leases").Name(lease.Name).Body(lease).Do(ctx).Into(stored)
}

// GetSecret reads a Secret.
func (c *Client) GetSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	secret := &corev1.Secret{}
	return secret, c.core.Get().Namespace(namespace).Resource("secrets").Name(name).Do(ctx).Into(secret)
}

// CreateCSR files a CertificateSigningRequest.
func (c *Client) CreateCSR(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stored := &certificatesv1.CertificateSigningRequest{}
	return stored, c.certificates.Post().Resource("certificatesigningrequests").Body(csr).Do(ctx).Into(stored)
}

// GetCSR reads a CertificateSigningRequest.
func (c *Client) GetCSR(ctx context.Context, name string) (*certificatesv1.CertificateSigningRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	csr := &certificatesv1.CertificateSigningRequest{}
	return csr, c.certificates.Get().Resource("certificatesigningrequests").Name(name).Do(ctx).Into(csr)
}
