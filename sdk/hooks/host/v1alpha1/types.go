package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// GroupVersion identifies the hooks of this package.
var GroupVersion = schema.GroupVersion{Group: "hooks.infrastructure.slipway.dev", Version: "v1alpha1"}

// BeforeHostClaimRequest is the request of the BeforeHostClaim hook.
// +kubebuilder:object:root=true
type BeforeHostClaimRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest holds the settings of the extension.
	hooksv1.CommonRequest `json:",inline"`

	// clusterName is the Cluster that the machine belongs to.
	ClusterName string `json:"clusterName"`

	// machineNamespace is the namespace of the machine and its Cluster.
	MachineNamespace string `json:"machineNamespace"`

	// machineName is the machine that wants the host.
	MachineName string `json:"machineName"`

	// hostName is the host that it would get.
	HostName string `json:"hostName"`
}

// BeforeHostClaimResponse is the response of the BeforeHostClaim hook.
// +kubebuilder:object:root=true
type BeforeHostClaimResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRetryResponse tells whether the claim may go on.
	hooksv1.CommonRetryResponse `json:",inline"`
}

// AfterHostReleaseRequest is the request of the AfterHostRelease hook.
// +kubebuilder:object:root=true
type AfterHostReleaseRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest holds the settings of the extension.
	hooksv1.CommonRequest `json:",inline"`

	// hostName is the host that was released.
	HostName string `json:"hostName"`
}

// AfterHostReleaseResponse is the response of the AfterHostRelease hook.
// +kubebuilder:object:root=true
type AfterHostReleaseResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRetryResponse tells whether the host may be claimed again.
	hooksv1.CommonRetryResponse `json:",inline"`
}
