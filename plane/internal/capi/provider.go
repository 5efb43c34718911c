package capi

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/slipway-dev/slipway/plane/internal/manifests"
	"github.com/slipway-dev/slipway/plane/internal/pki"
)

// Provider is a provider of ours, run beside the upstream ones.
type Provider struct {
	// Info names it; its label is the path of its webhooks.
	Info manifests.Provider

	// Client is who its manager is for the API server.
	Client pki.Client

	// Types are added to those every manager knows: Kubernetes', CRDs and
	// Cluster API's core types.
	Types []AddToScheme

	// Configure, when set, changes the manager's options, such as what is
	// cached.
	Configure func(*ctrl.Options)

	// Setup adds the provider's controllers and webhooks to its manager.
	Setup func(ctx context.Context, mgr ctrl.Manager) error
}

func (p Provider) build(ctx context.Context, base *rest.Config, hooks webhook.Server, _ *shared) (ctrl.Manager, error) {
	s, err := newScheme(p.Types)
	if err != nil {
		return nil, err
	}
	options := managerOptions(s, hooks)
	if p.Configure != nil {
		p.Configure(&options)
	}
	mgr, err := ctrl.NewManager(restConfig(base, p.Info.Label()), options)
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	return mgr, p.Setup(ctx, mgr)
}

// ServiceAccount is the identity a provider has when it runs in a Pod: its
// certificate says what its token would say, so that upstream's RBAC fits.
func ServiceAccount(info manifests.Provider, name string) pki.Client {
	return pki.Client{
		Name:   info.Label(),
		User:   "system:serviceaccount:" + info.Namespace + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + info.Namespace},
	}
}

// ExtensionCaller is who runtime extensions are called by: a certificate for that alone,
// with no rights at the API server.
var ExtensionCaller = pki.Client{Name: "runtime-extension-client", User: "slipway:cluster-api"}

// managed is a manager to run.
type managed struct {
	info   manifests.Provider
	client pki.Client
	build  func(ctx context.Context, base *rest.Config, hooks webhook.Server, common *shared) (ctrl.Manager, error)
}

func managers(providers []Provider) []managed {
	all := []managed{
		{manifests.Core, ServiceAccount(manifests.Core, "capi-manager"), newCore},
		{manifests.BootstrapKubeadm, ServiceAccount(manifests.BootstrapKubeadm, "capi-kubeadm-bootstrap-manager"), newBootstrap},
		{manifests.ControlPlaneKubeadm, ServiceAccount(manifests.ControlPlaneKubeadm, "capi-kubeadm-control-plane-manager"), newControlPlane},
	}
	for _, p := range providers {
		all = append(all, managed{p.Info, p.Client, p.build})
	}
	return all
}

// Clients returns the identities of all managers, and of who calls extensions.
func Clients(providers []Provider) []pki.Client {
	clients := []pki.Client{ExtensionCaller}
	for _, m := range managers(providers) {
		clients = append(clients, m.client)
	}
	return clients
}
