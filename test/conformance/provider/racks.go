package provider

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// roleLabel tells hosts for control planes from those for workers.
const roleLabel = "role"

// A cluster over three racks, of which two have hosts for control planes, and one of these
// a single one: it comes up. KubeadmControlPlane chooses the rack of a machine before
// anything is known of its host; in the third one, or in that with the single host, which it
// would prefer, it would wait for ever.
func controlPlaneRacks(t *testing.T, s *Suite) {
	f := &fixture{t: t, Suite: s, namespace: s.namespaceFor(t)}
	for name, place := range map[string]struct{ rack, role string }{
		"h1": {"rack-1", "control-plane"},
		"h2": {"rack-2", "control-plane"}, "h3": {"rack-2", "control-plane"}, "h4": {"rack-2", "control-plane"},
		"h5": {"rack-3", "worker"}, "h6": {"rack-3", "worker"},
	} {
		s.addHost(t, f.namespace, name, func(h *infrav1.Host) {
			h.Labels = map[string]string{corev1.LabelTopologyZone: place.rack, roleLabel: place.role}
		})
	}
	f.createFlavor("ha", withExternalEtcd, withHostsByRole, withFourControlPlanes)
	f.awaitMachines(4, 2)
	racks := map[string]int{}
	for _, m := range f.machinesOf(clusterv1.MachineControlPlaneLabel) {
		racks[m.Spec.FailureDomain]++
	}
	if racks["rack-1"] != 1 || racks["rack-2"] != 3 {
		t.Errorf("the control planes are in %v", racks)
	}
	for _, m := range f.machinesOf(clusterv1.MachineDeploymentNameLabel) {
		if _, host, _ := strings.Cut(m.Spec.ProviderID, f.namespace+"-"); !strings.HasPrefix(host, "h5/") && !strings.HasPrefix(host, "h6/") {
			t.Errorf("the worker %s is %s", m.Name, m.Spec.ProviderID)
		}
	}
}

// createFlavor creates what clusterctl makes of a released template, with changes that a
// user makes to it.
func (f *fixture) createFlavor(flavor string, changes ...func(*unstructured.Unstructured) error) {
	f.t.Helper()
	objects, err := Rendered(flavor)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, object := range objects {
		object.SetNamespace(f.namespace)
		for _, change := range changes {
			if err := change(object); err != nil {
				f.t.Fatal(err)
			}
		}
		f.create(object)
		if object.GetKind() == "Cluster" {
			f.cluster = &clusterv1.Cluster{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, f.cluster); err != nil {
				f.t.Fatal(err)
			}
			f.giveKubeconfig()
			f.giveEtcd()
		}
	}
}

// withHostsByRole has control planes and workers choose their hosts.
func withHostsByRole(object *unstructured.Unstructured) error {
	if object.GetKind() != "HostMachineTemplate" {
		return nil
	}
	role := strings.TrimPrefix(object.GetName(), clusterName+"-")
	return unstructured.SetNestedField(object.Object, role, "spec", "template", "spec", "hostSelector", "matchLabels", roleLabel)
}

// withFourControlPlanes has all hosts for them used.
func withFourControlPlanes(object *unstructured.Unstructured) error {
	if object.GetKind() != "KubeadmControlPlane" {
		return nil
	}
	return unstructured.SetNestedField(object.Object, int64(4), "spec", "replicas")
}

// withExternalEtcd spares the control plane an etcd of its own: simulated hosts have none, and
// KubeadmControlPlane asks it before each further machine.
func withExternalEtcd(object *unstructured.Unstructured) error {
	if object.GetKind() != "KubeadmControlPlane" {
		return nil
	}
	return unstructured.SetNestedMap(object.Object, map[string]any{
		"endpoints": []any{"https://10.88.0.201:2379"},
		"caFile":    "/etc/kubernetes/pki/etcd/ca.crt", "certFile": "/etc/kubernetes/pki/apiserver-etcd-client.crt", "keyFile": "/etc/kubernetes/pki/apiserver-etcd-client.key",
	}, "spec", "kubeadmConfigSpec", "clusterConfiguration", "etcd", "external")
}

// giveEtcd is what the user of an external etcd gives: its CA, and a client certificate.
// Nobody connects with them.
func (f *fixture) giveEtcd() {
	f.t.Helper()
	ca := &secret.Certificate{Purpose: secret.EtcdCA}
	if err := ca.Generate(); err != nil {
		f.t.Fatal(err)
	}
	for _, purpose := range []secret.Purpose{secret.EtcdCA, secret.APIServerEtcdClient} {
		given := &secret.Certificate{Purpose: purpose, KeyPair: ca.KeyPair}
		f.create(given.AsSecret(client.ObjectKeyFromObject(f.cluster), metav1.OwnerReference{}))
	}
}

// machinesOf are the Machines that have a label.
func (f *fixture) machinesOf(label string) []clusterv1.Machine {
	f.t.Helper()
	list := &clusterv1.MachineList{}
	f.list(list, client.HasLabels{label})
	return list.Items
}

// awaitMachines waits until so many control planes and workers run.
func (f *fixture) awaitMachines(controlPlanes, workers int) {
	f.t.Helper()
	poll.Until(f.t, "all machines run", func() error {
		planes := f.machinesOf(clusterv1.MachineControlPlaneLabel)
		for i := range planes {
			if err := f.playKubeadm(&planes[i]); err != nil {
				return err
			}
		}
		all := slices.Concat(planes, f.machinesOf(clusterv1.MachineDeploymentNameLabel))
		var waiting []string
		for i := range all {
			if m := &all[i]; m.Status.Phase != string(clusterv1.MachinePhaseRunning) {
				waiting = append(waiting, fmt.Sprintf("%s in %q is %s", m.Name, m.Spec.FailureDomain, m.Status.Phase))
			}
		}
		if len(planes) != controlPlanes || len(all) != controlPlanes+workers || len(waiting) > 0 {
			return fmt.Errorf("%d of %d machines are control planes, waiting are %v", len(planes), len(all), waiting)
		}
		return nil
	})
}

// playKubeadm does what kubeadm does on a control plane whose Node is there: the components
// run, and the control plane says that it is initialized. That is in a ConfigMap otherwise,
// which all Clusters of the suite would have in common.
func (f *fixture) playKubeadm(machine *clusterv1.Machine) error {
	node := machine.Status.NodeRef.Name
	if node == "" {
		return nil
	}
	pods := f.workloadClient.CoreV1().Pods(metav1.NamespaceSystem)
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: component + "-" + node, Labels: map[string]string{"component": component, "tier": "control-plane"}}}
		pod.Spec = corev1.PodSpec{NodeName: node, HostNetwork: true, Containers: []corev1.Container{{Name: component, Image: component}}}
		created, err := pods.Create(f.t.Context(), pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		if err != nil {
			return err
		}
		created.Status.Phase = corev1.PodRunning
		created.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if _, err := pods.UpdateStatus(f.t.Context(), created, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	plane := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.cluster.Spec.ControlPlaneRef.Name}}
	return f.Client.Status().Patch(f.t.Context(), plane, client.RawPatch(types.MergePatchType, []byte(`{"status":{"initialization":{"controlPlaneInitialized":true}}}`)))
}
