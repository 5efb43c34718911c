package upgradecheck

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Object has a configuration of kubeadm.
type Object struct {
	Kind, Namespace, Name string
	// ControlPlane says that its machines have a control plane.
	ControlPlane bool
	// Version of a control plane.
	Version string
	Spec    bootstrapv1.KubeadmConfigSpec
}

// Read returns what the machines of a cluster are made from: its KubeadmControlPlane, and the KubeadmConfigTemplates
// and KubeadmConfigs of its MachineDeployments and MachinePools, each once.
func Read(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster) ([]Object, error) {
	var objects []Object
	seen := map[clusterv1.ContractVersionedObjectReference]bool{}
	add := func(ref clusterv1.ContractVersionedObjectReference, versions string, controlPlane bool, path ...string) error {
		if seen[ref] || ref.Name == "" {
			return nil
		}
		seen[ref] = true
		found := &unstructured.Unstructured{}
		found.SetAPIVersion(ref.APIGroup + "/" + versions)
		found.SetKind(ref.Kind)
		if err := c.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: ref.Name}, found); err != nil {
			return fmt.Errorf("read %s %s: %w", ref.Kind, ref.Name, err)
		}
		object := Object{Kind: ref.Kind, Namespace: cluster.Namespace, Name: ref.Name, ControlPlane: controlPlane}
		object.Version, _, _ = unstructured.NestedString(found.Object, "spec", "version")
		spec, _, err := unstructured.NestedMap(found.Object, path...)
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &object.Spec)
		}
		if err != nil {
			return fmt.Errorf("read %s %s: %w", ref.Kind, ref.Name, err)
		}
		objects = append(objects, object)
		return nil
	}
	if ref := cluster.Spec.ControlPlaneRef; ref.Kind == "KubeadmControlPlane" {
		if err := add(ref, bootstrapv1.GroupVersion.Version, true, "spec", "kubeadmConfigSpec"); err != nil {
			return nil, err
		}
	}
	ofCluster := []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}}
	deployments, pools := &clusterv1.MachineDeploymentList{}, &clusterv1.MachinePoolList{}
	if err := c.List(ctx, deployments, ofCluster...); err != nil {
		return nil, err
	}
	if err := c.List(ctx, pools, ofCluster...); err != nil {
		return nil, err
	}
	var refs []clusterv1.ContractVersionedObjectReference
	for i := range deployments.Items {
		refs = append(refs, deployments.Items[i].Spec.Template.Spec.Bootstrap.ConfigRef)
	}
	for i := range pools.Items {
		refs = append(refs, pools.Items[i].Spec.Template.Spec.Bootstrap.ConfigRef)
	}
	for _, ref := range refs {
		path := []string{"spec"}
		switch ref.Kind {
		case "KubeadmConfigTemplate":
			path = []string{"spec", "template", "spec"}
		case "KubeadmConfig":
		default:
			continue
		}
		if err := add(ref, bootstrapv1.GroupVersion.Version, false, path...); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// KubeletConfiguration is what kubeadm has the kubelets of a running cluster read, before the patches of each machine.
func KubeletConfiguration(ctx context.Context, kubeconfig []byte) ([]byte, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout, config.WarningHandler = timeout, rest.NoWarnings{}
	workload, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	found := &corev1.ConfigMap{}
	if err := workload.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "kubelet-config"}, found); err != nil {
		return nil, err
	}
	return []byte(found.Data["kubelet"]), nil
}
