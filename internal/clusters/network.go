package clusters

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/templates"
)

// NetworkLabel on a Cluster chooses the pod network that a ClusterResourceSet installs
// into it.
const NetworkLabel = "slipway.dev/cni"

// flannel is the value of NetworkLabel for the network that host bundles hold the image of.
const flannel = "flannel"

// Network brings the pod network of a cluster.
type Network struct {
	// Flannel of the host bundles.
	Flannel bool
	// Manifest of another one, to be applied to the cluster; empty for none.
	Manifest []byte
}

// maxManifest is what a ConfigMap takes, in bytes, with room for the rest of the object.
const maxManifest = 1000 << 10

// objects are what installs the network into the cluster, which gets the label for it.
func (n Network) objects(cluster *clusterv1.Cluster) ([]client.Object, error) {
	switch {
	case n.Flannel:
		for _, cidr := range cluster.Spec.ClusterNetwork.Pods.CIDRBlocks {
			if cidr != DefaultPodCIDR && cidr != DefaultPodCIDR6 {
				return nil, invalid("--pod-cidr", "%s: the flannel of the host bundles is made for %s and %s; give the manifest of another network by --cni FILE",
					cidr, DefaultPodCIDR, DefaultPodCIDR6)
			}
		}
		cluster.Labels = map[string]string{NetworkLabel: flannel}
		return Flannel(cluster.Namespace)
	case len(n.Manifest) > maxManifest:
		return nil, invalid("--cni", "the manifest has %d bytes, and a ConfigMap takes no more than %d", len(n.Manifest), maxManifest)
	case len(n.Manifest) > 0:
		cluster.Labels = map[string]string{NetworkLabel: cluster.Name}
		return resourceSet(cluster.Namespace, cluster.Name+"-cni", cluster.Name, "cni.yaml", n.Manifest), nil
	}
	return nil, nil
}

// Flannel returns what installs flannel into the Clusters of a namespace that have the
// label for it.
func Flannel(namespace string) ([]client.Object, error) {
	manifest, err := templates.Local.ReadFile("local/flannel.yaml")
	if err != nil {
		return nil, err
	}
	return resourceSet(namespace, "slipway-flannel", flannel, "flannel.yaml", manifest), nil
}

// resourceSet wraps a manifest for the Clusters whose NetworkLabel has a value.
func resourceSet(namespace, name, value, file string, manifest []byte) []client.Object {
	return []client.Object{
		&corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Data:       map[string]string{file: string(manifest)},
		},
		&addonsv1.ClusterResourceSet{
			TypeMeta:   metav1.TypeMeta{APIVersion: addonsv1.GroupVersion.String(), Kind: "ClusterResourceSet"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: addonsv1.ClusterResourceSetSpec{
				Strategy:        string(addonsv1.ClusterResourceSetStrategyReconcile),
				ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{NetworkLabel: value}},
				Resources:       []addonsv1.ResourceRef{{Kind: "ConfigMap", Name: name}},
			},
		},
	}
}

// Bare returns an object as a user would write it: without the status and the fields that a
// server fills in.
func Bare(o client.Object) (map[string]any, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	delete(fields, "status")
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	return fields, nil
}
