package host_test

import (
	"cmp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// ownedBy makes a Secret that of an object, as its controller.
func ownedBy(group, kind, name string) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: group + "/v1beta2", Kind: kind, Name: name, UID: "u", Controller: ptr.To(true)}}
	}
}

// TestOnlyBootstrapDataReachesAgents: whoever may write the operation of a Host, or make a
// Machine, gets no other Secret of the namespace through an agent.
func TestOnlyBootstrapDataReachesAgents(t *testing.T) {
	const config = "KubeadmConfig"
	bootstrapGroup := bootstrapv1.GroupVersion.Group
	configured := func(machine *clusterv1.Machine, _ *infrav1.HostMachine) {
		machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapGroup, Kind: config, Name: "of-host-1"}
	}
	unlabelled := func(s *corev1.Secret) { s.Labels = nil }
	for name, tc := range map[string]struct {
		secret  []func(*corev1.Secret)
		machine func(*clusterv1.Machine, *infrav1.HostMachine)
		named   string // default: secret-1
		want    string // of the event; granted when it is empty
	}{
		"of its bootstrap config": {machine: configured, secret: []func(*corev1.Secret){unlabelled, ownedBy(bootstrapGroup, config, "of-host-1")}},
		"provided by somebody":    {},
		"of another type": {secret: []func(*corev1.Secret){func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }},
			want: `it has type "Opaque"; bootstrap data has type "cluster.x-k8s.io/secret"`},
		"a token of a ServiceAccount": {machine: configured, secret: []func(*corev1.Secret){ownedBy(bootstrapGroup, config, "of-host-1"), func(s *corev1.Secret) { s.Type = "kubernetes.io/x" }},
			want: `it has type "kubernetes.io/x"`},
		"of another machine's config": {machine: configured, secret: []func(*corev1.Secret){ownedBy(bootstrapGroup, config, "of-host-2")},
			want: "it is not owned by KubeadmConfig of-host-1, the bootstrap config of Machine of-host-1"},
		"of a control plane":   {machine: configured, secret: []func(*corev1.Secret){ownedBy("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "of-host-1")}, want: "it is not owned by KubeadmConfig"},
		"of another kind":      {machine: configured, secret: []func(*corev1.Secret){ownedBy(bootstrapGroup, "KubeadmConfigTemplate", "of-host-1")}, want: "it is not owned by KubeadmConfig"},
		"of another group":     {machine: configured, secret: []func(*corev1.Secret){ownedBy("example.com", config, "of-host-1")}, want: "it is not owned by KubeadmConfig"},
		"nobody's, configured": {machine: configured, want: "it is not owned by KubeadmConfig"},
		"a generated kubeconfig, by a machine without config": {secret: []func(*corev1.Secret){ownedBy("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "c1")},
			want: "it belongs to KubeadmControlPlane c1, and Machine of-host-1 has no bootstrap config"},
		"a provided kubeconfig": {named: "c1-kubeconfig", want: "its name is one of a kubeconfig or of keys of a cluster"},
		"a provided CA":         {named: "c1-ca", want: "its name is one of a kubeconfig or of keys of a cluster"},
		"of another cluster": {secret: []func(*corev1.Secret){func(s *corev1.Secret) { s.Labels[clusterv1.ClusterNameLabel] = "c2" }},
			want: "it lacks the label cluster.x-k8s.io/cluster-name="},
		"that its Machine does not name": {machine: func(machine *clusterv1.Machine, _ *infrav1.HostMachine) {
			machine.Spec.Bootstrap.DataSecretName = ptr.To("mine")
		}, want: `Machine of-host-1, which owns HostMachine of-host-1, names Secret "mine"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			secret := cmp.Or(tc.named, "secret-1")
			w.bootstrapData(secret, tc.secret...)
			host := w.host("host-1")
			var mutate []func(*clusterv1.Machine, *infrav1.HostMachine)
			if tc.machine != nil {
				mutate = append(mutate, tc.machine)
			}
			w.assign(host, secret, mutate...)
			w.expectAccess(secret, tc.want)
		})
	}
}

// TestAClaimThatNoMachineHoldsGivesNoBootstrapData: a claim that somebody wrote into a Host
// is not one that its machine made.
func TestAClaimThatNoMachineHoldsGivesNoBootstrapData(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*infrav1.HostMachine)
		want   string
	}{
		"of another claim": {func(m *infrav1.HostMachine) { m.Spec.ClaimID = "another" }, nothing},
		"of no claim":      {func(m *infrav1.HostMachine) { m.Spec.ClaimID = "" }, nothing},
		"of another name":  {func(m *infrav1.HostMachine) { m.Name = "other" }, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.bootstrapData("secret-1")
			w.assign(w.host("host-1"), "secret-1", func(_ *clusterv1.Machine, m *infrav1.HostMachine) { tc.change(m) })
			w.expectAccess("secret-1", tc.want)
		})
	}
	t.Run("without owner", func(t *testing.T) {
		w := newWorld(t)
		w.bootstrapData("secret-1")
		w.assign(w.host("host-1"), "secret-1")
		m := &infrav1.HostMachine{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "of-host-1"}, m); err != nil {
			t.Fatal(err)
		}
		m.OwnerReferences = nil
		w.update(m)
		w.expectAccess("secret-1", "no Machine or MachinePool owns HostMachine of-host-1")
	})
}

// TestBootstrapDataThatComesLater: the operation may be seen before the Secret, as in a move.
func TestBootstrapDataThatComesLater(t *testing.T) {
	w := newWorld(t)
	r := w.accessReconciler()
	w.assign(w.host("host-1"), "secret-1")
	if agents, result := w.access(r); len(agents) > 0 || result.RequeueAfter <= 0 {
		t.Fatalf("%v may read a Secret that is not there; again after %s", agents, result.RequeueAfter)
	}
	w.bootstrapData("secret-1")
	if agents, _ := w.access(r); len(agents) != 1 {
		t.Errorf("%v may read the Secret that came", agents)
	}
}

// nothing is wanted where no agent may read the Secret and nobody is told.
const nothing = "nothing"

// expectAccess holds that the agent of host-1 may read the Secret when want is empty, and
// that otherwise nobody may and an event says why.
func (w *world) expectAccess(secret, want string) {
	w.t.Helper()
	agents, result := w.accessTo(w.accessReconciler(), secret)
	if want == "" {
		if len(agents) != 1 || len(w.events) > 0 {
			w.t.Errorf("%v may read the Secret; %d events", agents, len(w.events))
		}
		return
	}
	if len(agents) > 0 || result.RequeueAfter <= 0 {
		w.t.Errorf("%v may read the Secret; looked at again after %s", agents, result.RequeueAfter)
	}
	if want == nothing {
		if len(w.events) > 0 {
			w.t.Errorf("event: %s", <-w.events)
		}
		return
	}
	select {
	case event := <-w.events:
		if !strings.Contains(event, "BootstrapDataRefused") || !strings.Contains(event, want) {
			w.t.Errorf("event %q, want %q", event, want)
		}
	default:
		w.t.Error("no event tells why")
	}
}
