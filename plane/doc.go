// Package plane documents the module of `slipway`, the one-binary Cluster API
// plane. It holds no code and nothing imports the module: it is a leaf, as it
// brings all of Kubernetes' dependencies.
//
// The API half, from the bottom: component runs parts in order; etcd, pki,
// apiserver and kubecontrollers are a small Kubernetes; manifests installs what
// clusterctl would; capi runs Cluster API; serve assembles them.
package plane
