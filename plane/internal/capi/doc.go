// Package capi runs Cluster API inside the plane's process: the upstream core,
// kubeadm bootstrap and kubeadm control-plane providers, and providers of ours.
//
// Every provider keeps a manager of its own, with the scheme, caches and
// clients that upstream's main gives it, and the identity and RBAC that it has
// in a Pod. Only the listener of the webhooks is shared: the webhooks of a
// provider are below /<label>/ of it. What a provider consists of is data: see
// the slices of steps in core.go, bootstrap.go and controlplane.go.
//
// Two things differ from upstream's mains, as upstream keeps them in internal
// packages: the Runtime SDK client and the lookup of a kind's
// API version (apiversion.go). One thing is added: controllers are woken by
// events where upstream polls every 15 to 30 seconds (wake.go; why and what it
// brings is in docs/design/latency.md).
//
// Upstream's controllers call runtime extensions through our SDK:
//
//	topology controller ─┐
//	ClusterClass, KCP   ─┼─ extensionClient ── sdk/client ── ExtensionDialer ──> https://127.0.0.1:9443
//	MachineDeployment   ─┘  upstream's interface             (the machine's loopback)
//
// extensionClient keeps upstream's semantics where they are documented, and the SDK's where
// upstream's are a defect. ExtensionDialer reaches extensions from the machine's network instead
// of the plane's namespace: what runs beside the plane, or where the machine can reach it, can be
// registered.
//
// The package imports component, manifests, network, pki, the SDK and cluster-api.
package capi
