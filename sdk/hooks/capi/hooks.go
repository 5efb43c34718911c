package capi

import (
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
)

var gv = hooksv1.GroupVersion

// Discovery is served by each extension and lists its handlers.
var Discovery = hook.Define[hooksv1.DiscoveryRequest, hooksv1.DiscoveryResponse](gv, "Discovery", meta("Discovery", "v1.2.0"))

// The lifecycle hooks, in the order of a Cluster's life. All but
// AfterControlPlaneInitialized are blocking.
var (
	BeforeClusterCreate          = hook.Define[hooksv1.BeforeClusterCreateRequest, hooksv1.BeforeClusterCreateResponse](gv, "BeforeClusterCreate", meta("BeforeClusterCreate", "v1.2.0"))
	AfterControlPlaneInitialized = hook.Define[hooksv1.AfterControlPlaneInitializedRequest, hooksv1.AfterControlPlaneInitializedResponse](gv, "AfterControlPlaneInitialized", meta("AfterControlPlaneInitialized", "v1.2.0"))
	BeforeClusterUpgrade         = hook.Define[hooksv1.BeforeClusterUpgradeRequest, hooksv1.BeforeClusterUpgradeResponse](gv, "BeforeClusterUpgrade", meta("BeforeClusterUpgrade", "v1.2.0"))
	BeforeControlPlaneUpgrade    = hook.Define[hooksv1.BeforeControlPlaneUpgradeRequest, hooksv1.BeforeControlPlaneUpgradeResponse](gv, "BeforeControlPlaneUpgrade", meta("BeforeControlPlaneUpgrade", "v1.12.0"))
	AfterControlPlaneUpgrade     = hook.Define[hooksv1.AfterControlPlaneUpgradeRequest, hooksv1.AfterControlPlaneUpgradeResponse](gv, "AfterControlPlaneUpgrade", meta("AfterControlPlaneUpgrade", "v1.2.0"))
	BeforeWorkersUpgrade         = hook.Define[hooksv1.BeforeWorkersUpgradeRequest, hooksv1.BeforeWorkersUpgradeResponse](gv, "BeforeWorkersUpgrade", meta("BeforeWorkersUpgrade", "v1.12.0"))
	AfterWorkersUpgrade          = hook.Define[hooksv1.AfterWorkersUpgradeRequest, hooksv1.AfterWorkersUpgradeResponse](gv, "AfterWorkersUpgrade", meta("AfterWorkersUpgrade", "v1.12.0"))
	AfterClusterUpgrade          = hook.Define[hooksv1.AfterClusterUpgradeRequest, hooksv1.AfterClusterUpgradeResponse](gv, "AfterClusterUpgrade", meta("AfterClusterUpgrade", "v1.2.0"))
	BeforeClusterDelete          = hook.Define[hooksv1.BeforeClusterDeleteRequest, hooksv1.BeforeClusterDeleteResponse](gv, "BeforeClusterDelete", meta("BeforeClusterDelete", "v1.2.0"))
)

// The topology mutation hooks, called while a managed topology is computed.
var (
	GeneratePatches   = hook.Define[hooksv1.GeneratePatchesRequest, hooksv1.GeneratePatchesResponse](gv, "GeneratePatches", meta("GeneratePatches", "v1.2.0"))
	ValidateTopology  = hook.Define[hooksv1.ValidateTopologyRequest, hooksv1.ValidateTopologyResponse](gv, "ValidateTopology", meta("ValidateTopology", "v1.2.0"))
	DiscoverVariables = hook.Define[hooksv1.DiscoverVariablesRequest, hooksv1.DiscoverVariablesResponse](gv, "DiscoverVariables", meta("DiscoverVariables", "v1.4.0"))
)

// GenerateUpgradePlan plans an upgrade over several minor versions.
var GenerateUpgradePlan = hook.Define[hooksv1.GenerateUpgradePlanRequest, hooksv1.GenerateUpgradePlanResponse](gv, "GenerateUpgradePlan", meta("GenerateUpgradePlan", "v1.12.0"))

// The hooks of in-place updates.
var (
	CanUpdateMachine    = hook.Define[hooksv1.CanUpdateMachineRequest, hooksv1.CanUpdateMachineResponse](gv, "CanUpdateMachine", meta("CanUpdateMachine", "v1.12.0"))
	CanUpdateMachineSet = hook.Define[hooksv1.CanUpdateMachineSetRequest, hooksv1.CanUpdateMachineSetResponse](gv, "CanUpdateMachineSet", meta("CanUpdateMachineSet", "v1.12.0"))
	UpdateMachine       = hook.Define[hooksv1.UpdateMachineRequest, hooksv1.UpdateMachineResponse](gv, "UpdateMachine", meta("UpdateMachine", "v1.12.0"))
)

// AddToCatalog adds all hooks of this package.
func AddToCatalog(c *hook.Catalog) error {
	return c.Add(
		Discovery,
		BeforeClusterCreate, AfterControlPlaneInitialized, BeforeClusterUpgrade,
		BeforeControlPlaneUpgrade, AfterControlPlaneUpgrade, BeforeWorkersUpgrade,
		AfterWorkersUpgrade, AfterClusterUpgrade, BeforeClusterDelete,
		GeneratePatches, ValidateTopology, DiscoverVariables,
		GenerateUpgradePlan,
		CanUpdateMachine, CanUpdateMachineSet, UpdateMachine,
	)
}

// meta takes a hook's documentation from upstream, which keeps it next to the
// types, and adds the release that introduced it.
func meta(name, introduced string) hook.Meta {
	upstream := runtimecatalog.New()
	m := hook.Meta{Object: objectOf, Lifecycle: hook.Lifecycle{Introduced: hook.Release{Version: introduced}}}
	if err := hooksv1.AddToCatalog(upstream); err != nil {
		return m
	}
	descriptor, ok := upstream.AllKnownHooks()[hook.GroupVersionHook{Group: gv.Group, Version: gv.Version, Hook: name}]
	if !ok {
		return m
	}
	m.Summary = descriptor.Metadata.Summary
	m.Description = descriptor.Metadata.Description
	m.Tags = descriptor.Metadata.Tags
	m.Singleton = descriptor.Metadata.Singleton
	return m
}
