package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// NewerVersion is what hosts are updated to in place; see Suite.MoreVersions.
const NewerVersion = "v1.36.4"

// InPlaceUpdates judges that core, to which this provider is registered as an extension for
// updates in place, updates the Machines of a MachineDeployment in place when their version
// changes, and replaces none that must not be.
func InPlaceUpdates(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"infrastructure.slipway.dev/in-place-updates":"enabled"}}}`))
	if err := s.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}, label); err != nil {
		t.Fatal(err)
	}
	f.addControlPlane()
	f.addHosts(t, f.namespace, 3)
	md := f.newDeployment(2)
	f.awaitDeployment(version, 2)
	before := f.identities()

	f.update(md, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = NewerVersion })
	f.awaitDeployment(NewerVersion, 2)
	if after := f.identities(); !maps.Equal(before, after) {
		t.Errorf("the Machines were %v and are %v", before, after)
	}
	nodes := &corev1.NodeList{}
	if err := s.Workload.Client.List(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	upgraded := 0
	for i := range nodes.Items {
		if strings.HasPrefix(nodes.Items[i].Name, f.namespace) && nodes.Items[i].Status.NodeInfo.KubeletVersion == NewerVersion {
			upgraded++
		}
	}
	if upgraded != 2 {
		t.Errorf("%d Nodes run %s, want 2", upgraded, NewerVersion)
	}

	// No host is brought down to an older version: with Required nothing happens, until the
	// policy lets the Machines be replaced.
	f.update(md, func(md *clusterv1.MachineDeployment) {
		md.Spec.Template.Annotations = map[string]string{infrav1.InPlaceUpdatesAnnotation: infrav1.InPlaceUpdatesRequired}
	})
	f.update(md, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = version })
	poll.Until(t, "core is told that the Machines must not be replaced", func() error {
		for _, line := range s.Logged("and the change cannot be made in place") {
			if strings.Contains(line, f.namespace) && strings.Contains(line, "down to "+version) {
				return nil
			}
		}
		return fmt.Errorf("nobody says so")
	})
	if after := f.identities(); !maps.Equal(before, after) {
		t.Errorf("Machines that must not be replaced were %v and are %v", before, after)
	}
	f.update(md, func(md *clusterv1.MachineDeployment) {
		md.Spec.Template.Annotations = map[string]string{infrav1.InPlaceUpdatesAnnotation: infrav1.InPlaceUpdatesPreferred}
	})
	f.awaitDeployment(version, 2)
	for name := range f.identities() {
		if _, kept := before[name]; kept {
			t.Errorf("Machine %s was brought down from %s", name, NewerVersion)
		}
	}
}

// newDeployment makes a MachineDeployment of hosts that kubeadm joins, as far as its data
// goes.
func (f *fixture) newDeployment(replicas int32) *clusterv1.MachineDeployment {
	f.t.Helper()
	const name = "workers"
	template := &infrav1.HostMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	labels := map[string]string{"deployment": name}
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	md.Spec = clusterv1.MachineDeploymentSpec{
		ClusterName: clusterName, Replicas: ptr.To(replicas), Selector: metav1.LabelSelector{MatchLabels: labels},
		Template: clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: labels}, Spec: clusterv1.MachineSpec{
			ClusterName: clusterName, Version: version,
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfigTemplate", Name: name,
			}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "HostMachineTemplate", Name: name},
		}},
	}
	md.Spec.Rollout.Strategy = clusterv1.MachineDeploymentRolloutStrategy{
		Type:          clusterv1.RollingUpdateMachineDeploymentStrategyType,
		RollingUpdate: clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{MaxSurge: ptr.To(intstr.FromInt32(0)), MaxUnavailable: ptr.To(intstr.FromInt32(1))},
	}
	config := &bootstrapv1.KubeadmConfigTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	config.Spec.Template.Spec.PreKubeadmCommands = []string{"true"}
	f.create(f.authority(), config, template, md)
	return md
}

// authority is the CA of the workload cluster, which a control plane would make. The
// bootstrap provider puts its digest into the data of who joins.
func (f *fixture) authority() *corev1.Secret {
	f.t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("kubernetes", nil, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	authority := f.bootstrapSecret(secret.Name(clusterName, secret.ClusterCA))
	authority.Data = map[string][]byte{secret.TLSCrtDataName: certificate, secret.TLSKeyDataName: key}
	return authority
}

func (f *fixture) update(md *clusterv1.MachineDeployment, mutate func(*clusterv1.MachineDeployment)) {
	f.t.Helper()
	change(f.t, f.Suite, md, mutate)
}

// awaitDeployment waits until all Machines of the MachineDeployment serve with a version.
func (f *fixture) awaitDeployment(version string, want int) {
	f.t.Helper()
	poll.Until(f.t, fmt.Sprintf("%d Machines of %s serve", want, version), func() error {
		machines := f.deployed()
		var seen []string
		serving := 0
		for i := range machines {
			m := &machines[i]
			_, updating := m.Annotations[clusterv1.UpdateInProgressAnnotation]
			running := ""
			if m.Status.NodeInfo != nil {
				running = m.Status.NodeInfo.KubeletVersion
			}
			seen = append(seen, fmt.Sprintf("%s asks for %s, runs %s, updating %t", m.Name, m.Spec.Version, running, updating))
			if m.Spec.Version == version && running == version && !updating && m.DeletionTimestamp.IsZero() {
				serving++
			}
		}
		if serving == want && len(machines) == want {
			return nil
		}
		return fmt.Errorf("%s", strings.Join(seen, "; "))
	})
}

func (f *fixture) deployed() []clusterv1.Machine {
	f.t.Helper()
	list := &clusterv1.MachineList{}
	f.list(list, client.MatchingLabels{"deployment": "workers"})
	slices.SortFunc(list.Items, func(a, b clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

// identities are the hosts of the Machines of the MachineDeployment, by name.
func (f *fixture) identities() map[string]string {
	f.t.Helper()
	ids := map[string]string{}
	for _, m := range f.deployed() {
		ids[m.Name] = string(m.UID) + " " + m.Spec.ProviderID
	}
	return ids
}
