package manifests

import (
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
)

// Provider identifies a Cluster API provider as clusterctl does.
type Provider struct {
	// Name is clusterctl's name, such as "kubeadm".
	Name string
	Type clusterctlv1.ProviderType
	// Namespace is where clusterctl would install it.
	Namespace string
	// Version is a semantic version with a leading v. For the upstream
	// providers it is the version of the rendered module.
	Version string
}

// The providers that every plane runs.
var (
	Core                = Provider{Name: "cluster-api", Type: clusterctlv1.CoreProviderType, Namespace: "capi-system"}
	BootstrapKubeadm    = Provider{Name: "kubeadm", Type: clusterctlv1.BootstrapProviderType, Namespace: "capi-kubeadm-bootstrap-system"}
	ControlPlaneKubeadm = Provider{Name: "kubeadm", Type: clusterctlv1.ControlPlaneProviderType, Namespace: "capi-kubeadm-control-plane-system"}
)

// Label is the provider's unique name, such as "bootstrap-kubeadm".
func (p Provider) Label() string { return clusterctlv1.ManifestLabel(p.Name, p.Type) }

// Labels are on every object of the provider.
func (p Provider) Labels() map[string]string {
	return map[string]string{
		clusterctlv1.ClusterctlLabel: "",
		clusterv1.ProviderNameLabel:  p.Label(),
	}
}

// Inventory returns the object by which clusterctl knows the provider.
func (p Provider) Inventory() (Object, error) {
	labels := maps.Clone(p.Labels())
	labels[clusterctlv1.ClusterctlCoreLabel] = clusterctlv1.ClusterctlCoreLabelInventoryValue
	raw, err := json.Marshal(clusterctlv1.Provider{
		TypeMeta:     metav1.TypeMeta{APIVersion: clusterctlv1.GroupVersion.String(), Kind: "Provider"},
		ObjectMeta:   metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Label(), Labels: labels},
		ProviderName: p.Name,
		Type:         string(p.Type),
		Version:      p.Version,
	})
	if err != nil {
		return Object{}, fmt.Errorf("inventory of %s: %w", p.Label(), err)
	}
	return parseObject(p.Label(), raw)
}
