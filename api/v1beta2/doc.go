// Package v1beta2 holds the infrastructure.slipway.dev/v1beta2 API: the hosts an
// operator owns and the infrastructure objects Cluster API asks for on top of
// them. It follows contract version v1beta2 of Cluster API and is the storage
// version.
//
// It may import only apimachinery and the Cluster API types, so that a client
// can use it without pulling in a controller.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.slipway.dev
package v1beta2
