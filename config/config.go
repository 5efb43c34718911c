// Package config embeds what clusterctl installs of the provider: the CRDs,
// RBAC and webhook configurations that controller-gen writes. The plane installs the
// same bytes, so that `slipway up` and a real management cluster cannot differ.
//
// It imports nothing of this module.
package config

import "embed"

// FS holds crd/bases/*.yaml, rbac/*.yaml and webhook/manifests.yaml.
//
//go:embed crd/bases/*.yaml webhook/manifests.yaml
//go:embed rbac/role.yaml rbac/manager_binding.yaml rbac/aggregated_role.yaml rbac/agent_roles.yaml
var FS embed.FS

// Lifecycle holds lifecycle/crd/bases/*.yaml, and what else of the lifecycle engine
// controller-gen writes.
//
//go:embed lifecycle/crd/bases/*.yaml
var Lifecycle embed.FS
