// Package v1beta1 holds the types of the host hooks. It imports upstream's types only.
//
// +kubebuilder:object:generate=true
package v1beta1
