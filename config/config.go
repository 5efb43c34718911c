// Package config embeds what clusterctl installs of the provider: the CRDs,
// RBAC and webhook configurations that controller-gen writes. The plane installs the
// same bytes, so that `slipway up` and a real management cluster cannot differ.
//
// It imports nothing of this module.
package config

import "embed"

// FS holds crd/bases/*.yaml, rbac/*.yaml, webhook/manifests.yaml and the admission policies;
// plane is what a plane has in the place of rbac/secrets_binding.yaml, which has a variable.
//
//go:embed crd/bases/*.yaml webhook/manifests.yaml admission/*_policy.yaml
//go:embed rbac/role.yaml rbac/manager_binding.yaml rbac/aggregated_role.yaml rbac/agent_roles.yaml
//go:embed rbac/secrets_role.yaml plane/secrets_binding.yaml
var FS embed.FS

// AgentUnit is the unit of the agent, as hosts have it.
//
//go:embed agent/slipway-agent.service
var AgentUnit []byte

// InPlaceUpdates is the ExtensionConfig by which Cluster API asks slipway-manager whether
// Machines can be updated in place.
//
//go:embed extension/extensionconfig.yaml
var InPlaceUpdates []byte

// Lifecycle holds of the lifecycle engine lifecycle/crd/bases/*.yaml, rbac, webhooks,
// and the ExtensionConfig; lifecycle/plane is what a plane adds.
//
//go:embed lifecycle/crd/bases/*.yaml lifecycle/extension/extensionconfig.yaml
//go:embed lifecycle/webhook/manifests.yaml lifecycle/webhook/cluster_webhook.yaml lifecycle/webhook/deletion_webhook.yaml
//go:embed lifecycle/rbac/role.yaml lifecycle/rbac/role_binding.yaml lifecycle/rbac/decider_role.yaml lifecycle/admission/secret_policy.yaml lifecycle/admission/namespace_policy.yaml
//go:embed lifecycle/rbac/step_roles.yaml lifecycle/plane/steps_binding.yaml
var Lifecycle embed.FS

// Console holds the roles of the console in the management cluster.
//
//go:embed console/role.yaml console/changes_role.yaml
var Console embed.FS
