package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// GroupVersion identifies the hooks of this package.
var GroupVersion = schema.GroupVersion{Group: "hooks.infrastructure.slipway.dev", Version: "v1beta1"}

// BeforeHostClaimRequest is the request of the BeforeHostClaim hook.
// +kubebuilder:object:root=true
type BeforeHostClaimRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest holds the settings of the extension.
	hooksv1.CommonRequest `json:",inline"`

	// clusterName is the Cluster that the machine belongs to.
	ClusterName string `json:"clusterName"`

	// machine is the machine that wants the host.
	Machine ObjectReference `json:"machine"`

	// host is the host that it would get.
	Host Host `json:"host"`
}

// BeforeHostClaimResponse is the response of the BeforeHostClaim hook.
// +kubebuilder:object:root=true
type BeforeHostClaimResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRetryResponse tells whether the claim may go on.
	hooksv1.CommonRetryResponse `json:",inline"`

	// reason is a machine-readable word for why the claim has to wait.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// AfterHostReleaseRequest is the request of the AfterHostRelease hook.
// +kubebuilder:object:root=true
type AfterHostReleaseRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest holds the settings of the extension.
	hooksv1.CommonRequest `json:",inline"`

	// host is the host that was released.
	Host Host `json:"host"`
}

// AfterHostReleaseResponse is the response of the AfterHostRelease hook.
// +kubebuilder:object:root=true
type AfterHostReleaseResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRetryResponse tells whether the host may be claimed again.
	hooksv1.CommonRetryResponse `json:",inline"`
}

// ObjectReference names an object.
type ObjectReference struct {
	// namespace of the object.
	Namespace string `json:"namespace"`

	// name of the object.
	Name string `json:"name"`
}

// Host describes a host.
type Host struct {
	// name of the Host object.
	Name string `json:"name"`

	// labels of the Host object.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// addresses of the host, as it reported them.
	// +optional
	Addresses []string `json:"addresses,omitempty"`
}
