package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KubernetesReleaseSpec names the host bundle that brings a Kubernetes version to hosts.
type KubernetesReleaseSpec struct {
	// version of Kubernetes with a leading v, for example v1.36.3. The object has its name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9a-z]+([.-][0-9a-z]+)*)?$`
	Version string `json:"version,omitempty"`

	// digest of the index of the host bundle, which is what its signature vouches for:
	// "sha256:" and 64 hexadecimal digits. Hosts install that bundle and no other one, and
	// only once the signature holds by a key of their own. Another digest is for the
	// hosts that install the version from then on.
	// +required
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`

	// architectures that the bundle is for, as Go names them: amd64, arm64.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]+$`
	Architectures []string `json:"architectures,omitempty"`

	// origin says who built the programs and images of the bundle, as the bundle records it. It
	// is for people: hosts install the bundle of the digest.
	// +optional
	Origin SoftwareOrigin `json:"origin,omitempty"`
}

// KubernetesRelease is a Kubernetes version that hosts install on demand: those whose
// agent says in status.software.management of the Host that their software is Managed. A
// Machine of the version may then have a host which lacks it. `slipway bundle load` writes
// it. What hosts installed stays when it is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:storageversion
// +kubebuilder:resource:path=kubernetesreleases,scope=Cluster,shortName=swr,categories=slipway
// +kubebuilder:printcolumn:name="Architectures",type="string",JSONPath=".spec.architectures",description="Architectures that the bundle is for"
// +kubebuilder:printcolumn:name="Origin",type="string",JSONPath=".spec.origin",description="Who built it: Upstream or OwnBuild"
// +kubebuilder:printcolumn:name="Digest",type="string",priority=10,JSONPath=".spec.digest",description="Digest of the host bundle"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since the version was first loaded"
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.version",message="a KubernetesRelease has the name of its spec.version"
type KubernetesRelease struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec names the host bundle.
	// +required
	Spec KubernetesReleaseSpec `json:"spec,omitempty,omitzero"`
}

// KubernetesReleaseList is a list of KubernetesReleases.
//
// +kubebuilder:object:root=true
type KubernetesReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []KubernetesRelease `json:"items"`
}
