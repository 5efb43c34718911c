// Package templates embeds the ready-made cluster templates and policies of Slipway.
//
// It imports nothing of this module.
package templates

import "embed"

// Local holds what `slipway up` applies: local/clusterclass.yaml, the
// ClusterClass made for local hosts; local/flannel.yaml, the pod network, which a
// ClusterResourceSet installs; local/cluster.yaml, the default Cluster.
//
//go:embed local/*.yaml
var Local embed.FS

// Class is the ClusterClass of a release with its templates.
//
//go:embed clusterclass-slipway.yaml
var Class []byte

// Policies holds policies/*.yaml, LifecyclePolicies to begin with.
//
//go:embed policies/*.yaml
var Policies embed.FS
