// Package v1alpha1 holds the first types of the host hooks. It imports upstream's
// types only.
//
// +kubebuilder:object:generate=true
package v1alpha1
