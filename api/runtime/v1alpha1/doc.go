// Package v1alpha1 holds the runtime.slipway.dev/v1alpha1 API: the runtime
// extensions that take part in what this provider does with hosts, and the names
// that are shared with upstream's ExtensionConfig.
//
// It may import only apimachinery and the Cluster API types.
//
// +kubebuilder:object:generate=true
// +groupName=runtime.slipway.dev
package v1alpha1
