package host

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/host/v1beta1"
)

var claimMeta = hook.Meta{
	Tags:    []string{"Host Hooks"},
	Summary: "The provider calls this hook before a machine claims a host",
	Description: "A handler that asks for a retry holds the claim back; the machine may get another host " +
		"at the next attempt. Handlers are called again until none of them asks for a retry.",
}

var releaseMeta = hook.Meta{
	Tags:    []string{"Host Hooks"},
	Summary: "The provider calls this hook after a host was released and cleaned",
	Description: "A handler that asks for a retry keeps the host from being claimed again, " +
		"for example until its disks are wiped or its firmware is updated.",
}

// The hooks of the provider.
var (
	BeforeHostClaim  = hook.Define[v1beta1.BeforeHostClaimRequest, v1beta1.BeforeHostClaimResponse](v1beta1.GroupVersion, "BeforeHostClaim", current(claimMeta))
	AfterHostRelease = hook.Define[v1beta1.AfterHostReleaseRequest, v1beta1.AfterHostReleaseResponse](v1beta1.GroupVersion, "AfterHostRelease", current(releaseMeta))
)

// objectOf returns the HostMachine that wants a host, or the Host that was released.
func objectOf(request runtime.Object) hook.ObjectReference {
	switch r := request.(type) {
	case *v1beta1.BeforeHostClaimRequest:
		return hook.ObjectReference{Kind: "HostMachine", Namespace: r.Machine.Namespace, Name: r.Machine.Name}
	case *v1beta1.AfterHostReleaseRequest:
		return hook.ObjectReference{Kind: "Host", Name: r.Host.Name}
	}
	return hook.ObjectReference{}
}

func current(m hook.Meta) hook.Meta {
	m.Object = objectOf
	m.Lifecycle = hook.Lifecycle{Introduced: hook.Release{Version: "v0.1.0"}}
	return m
}

// AddToCatalog adds all hooks of this package.
func AddToCatalog(c *hook.Catalog) error { return c.Add(BeforeHostClaim, AfterHostRelease) }
