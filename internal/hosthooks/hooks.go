package hosthooks

import (
	"context"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/hooks/host/v1beta1"
)

// Catalog returns the hooks of this provider in all their versions.
func Catalog() (*hook.Catalog, error) {
	catalog := hook.NewCatalog()
	return catalog, host.AddToCatalog(catalog)
}

// Hooks calls the hooks. The nil value has no extensions: every hook passes.
type Hooks struct {
	// Client calls the handlers of HostExtensionConfigs.
	Client *sdkclient.Client
}

// BeforeClaim calls BeforeHostClaim for a machine of a Cluster that is about to
// claim h.
func (c *Hooks) BeforeClaim(ctx context.Context, m *infrav1.HostMachine, cluster string, h *infrav1.Host) Outcome {
	if c == nil {
		return passed(0)
	}
	result, err := sdkclient.CallAll(ctx, c.Client, host.BeforeHostClaim, m, &v1beta1.BeforeHostClaimRequest{
		ClusterName: cluster,
		Machine:     v1beta1.ObjectReference{Namespace: m.Namespace, Name: m.Name},
		Host:        describe(h),
	})
	return outcome(result, err, func(r *v1beta1.BeforeHostClaimResponse) string { return r.Reason })
}

// MarkReleased notes on h, which is about to lose its claim, that AfterHostRelease
// is due, unless nobody listens. If that is not known, it is due.
func (c *Hooks) MarkReleased(ctx context.Context, h *infrav1.Host) {
	if c == nil {
		return
	}
	handlers, err := c.Client.Handlers(ctx, host.AfterHostRelease, h)
	if err == nil && len(handlers) == 0 {
		return
	}
	if h.Annotations == nil {
		h.Annotations = map[string]string{}
	}
	h.Annotations[runtimev1alpha1.PendingHooksAnnotation] = host.AfterHostRelease.Definition().Name.Hook
}

// AfterRelease calls AfterHostRelease for a host on which it is due.
func (c *Hooks) AfterRelease(ctx context.Context, h *infrav1.Host) Outcome {
	if c == nil {
		return passed(0)
	}
	result, err := sdkclient.CallAll(ctx, c.Client, host.AfterHostRelease, h, &v1beta1.AfterHostReleaseRequest{Host: describe(h)})
	return outcome(result, err, func(*v1beta1.AfterHostReleaseResponse) string { return "" })
}

func describe(h *infrav1.Host) v1beta1.Host {
	described := v1beta1.Host{Name: h.Name, Labels: h.Labels}
	for _, address := range h.Status.Addresses {
		described.Addresses = append(described.Addresses, address.Address)
	}
	return described
}
