// Package v1alpha1 holds the lifecycle.slipway.dev/v1alpha1 API: what an operator
// declares for the lifecycle hooks of Clusters (LifecyclePolicy), and the record of
// each time a policy answered a hook (LifecycleRun).
//
// It may import only apimachinery and the Cluster API types.
//
// +kubebuilder:object:generate=true
// +groupName=lifecycle.slipway.dev
package v1alpha1
