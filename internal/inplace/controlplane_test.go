package inplace_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// controlPlane is a world whose Machine is of a control plane of n, each on a host of its own.
type controlPlane struct {
	*world
	// agents of the other Machines, by name.
	agents map[string]*testenv.Agent
}

func newControlPlane(t *testing.T, n int) *controlPlane {
	t.Helper()
	ofControlPlane := func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Labels[clusterv1.MachineControlPlaneLabel] = "" }
	p := &controlPlane{world: newWorld(t, ofControlPlane), agents: map[string]*testenv.Agent{}}
	for _, name := range []string{"m2", "m3", "m4"}[:n-1] {
		claim, at := "claim-"+name, "host-"+name
		agent := testenv.NewHost(t, env.Client, p.machine.Namespace, at, time.Now(), func(h *infrav1.Host) {
			h.Spec.Claim = &infrav1.HostClaim{MachineName: name, ClusterName: testenv.ClusterName, ClaimID: claim}
			h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredBootstrapped, OperationID: host.BootstrapOperationID(claim), Version: testenv.Version}
		})
		agent.Obey(t, time.Now())
		p.agents[name] = agent
		testenv.NewMachine(t, env.Client, p.machine.Namespace, name, ofControlPlane, func(_ *clusterv1.Machine, infra *infrav1.HostMachine) {
			infra.Spec.ClaimID, infra.Spec.ProviderID = claim, infrav1.ProviderID(p.machine.Namespace, at, claim)
		})
		p.node(name, "node-"+name)
	}
	p.node("m1", "node-1")
	return p
}

func (p *controlPlane) other(name string) *clusterv1.Machine {
	p.t.Helper()
	m := &clusterv1.Machine{}
	p.get(client.ObjectKey{Namespace: p.machine.Namespace, Name: name}, m)
	return m
}

// node says which Node a Machine has.
func (p *controlPlane) node(name, node string) {
	p.t.Helper()
	m := p.other(name)
	m.Status.NodeRef = clusterv1.MachineNodeReference{Name: node}
	if err := env.Client.Status().Update(p.t.Context(), m); err != nil {
		p.t.Fatal(err)
	}
}

// canUpdateMachine asks as KubeadmControlPlane does.
func (w *world) canUpdateMachine(policy, bootstrap string) *hooksv1.CanUpdateMachineResponse {
	w.t.Helper()
	return w.canChangeMachine(policy, bootstrap, bootstrap)
}

func (w *world) canChangeMachine(policy, current, desired string) *hooksv1.CanUpdateMachineResponse {
	w.t.Helper()
	side := func(version, bootstrap string) hooksv1.CanUpdateMachineRequestObjects {
		return w.machineSide(policy, version, bootstrap, "")
	}
	return hooktest.Call(w.t, w.server(), capi.CanUpdateMachine, "can-update-machine",
		&hooksv1.CanUpdateMachineRequest{Current: side(testenv.Version, current), Desired: side(newVersion, desired)})
}

// machineSide is one side of a change of the Machine, with the spec of its HostMachine.
func (w *world) machineSide(policy, version, bootstrap, infrastructure string) hooksv1.CanUpdateMachineRequestObjects {
	w.t.Helper()
	m := clusterv1.Machine{
		TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.machine.Namespace, Name: w.machine.Name, Labels: w.machine.Labels, Annotations: map[string]string{infrav1.InPlaceUpdatesAnnotation: policy},
		},
		Spec: *w.machine.Spec.DeepCopy(),
	}
	m.Spec.Version = version
	return hooksv1.CanUpdateMachineRequestObjects{
		Machine: m, InfrastructureMachine: raw(`{"apiVersion":"infrastructure.slipway.dev/v1beta2","kind":"HostMachine","spec":{` + infrastructure + `}}`),
		BootstrapConfig: raw(`{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2","kind":"KubeadmConfig","spec":{` + bootstrap + `}}`),
	}
}

const versionOfMachine = `{"spec":{"version":"` + newVersion + `"}}`

func TestCanUpdateMachine(t *testing.T) {
	t.Run("of no control plane", func(t *testing.T) {
		if r := newWorld(t).canUpdateMachine("", ""); string(r.MachinePatch.Patch) != versionOfMachine {
			t.Errorf("the answer is %+v", r)
		}
	})
	t.Run("of a control plane of three", func(t *testing.T) {
		if r := newControlPlane(t, 3).canUpdateMachine(infrav1.InPlaceUpdatesRequired, ""); string(r.MachinePatch.Patch) != versionOfMachine {
			t.Errorf("the answer is %+v", r)
		}
	})
}

// KubeadmControlPlane sets one feature gate by the version alone: that changes with it, and
// nothing else does.
func TestGateOfTheVersion(t *testing.T) {
	const gate = `"clusterConfiguration":{"featureGates":{"ControlPlaneKubeletLocalMode":true}}`
	for name, c := range map[string]struct {
		current, desired, patch string
	}{
		"dropped with all around it": {gate, ``, `{"spec":{"clusterConfiguration":null}}`},
		"dropped beside another": {
			`"clusterConfiguration":{"featureGates":{"ControlPlaneKubeletLocalMode":true,"A":true}}`, `"clusterConfiguration":{"featureGates":{"A":true}}`,
			`{"spec":{"clusterConfiguration":{"featureGates":{"ControlPlaneKubeletLocalMode":null}}}}`,
		},
		"dropped below a configuration": {
			`"clusterConfiguration":{"certificatesDir":"/c","featureGates":{"ControlPlaneKubeletLocalMode":true}}`, `"clusterConfiguration":{"certificatesDir":"/c"}`,
			`{"spec":{"clusterConfiguration":{"featureGates":null}}}`,
		},
		"set by an older version": {``, gate, `{"spec":{"clusterConfiguration":{"featureGates":{"ControlPlaneKubeletLocalMode":true}}}}`},
		"the same":                {gate, gate, ``},
	} {
		t.Run(name, func(t *testing.T) {
			r := newControlPlane(t, 3).canChangeMachine(infrav1.InPlaceUpdatesRequired, c.current, c.desired)
			if string(r.MachinePatch.Patch) != versionOfMachine || string(r.BootstrapConfigPatch.Patch) != c.patch {
				t.Errorf("the answer is %+v, want the patch %s", r, c.patch)
			}
		})
	}
	for name, c := range map[string]struct{ current, desired string }{
		"switched on":      {`"clusterConfiguration":{"featureGates":{"ControlPlaneKubeletLocalMode":false}}`, gate},
		"no longer off":    {`"clusterConfiguration":{"featureGates":{"ControlPlaneKubeletLocalMode":false}}`, ``},
		"another gate":     {gate, `"clusterConfiguration":{"featureGates":{"A":true}}`},
		"switched off":     {gate, `"clusterConfiguration":{"featureGates":{"ControlPlaneKubeletLocalMode":false}}`},
		"something beside": {gate, `"clusterConfiguration":{"certificatesDir":"/c"}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newControlPlane(t, 3).canChangeMachine(infrav1.InPlaceUpdatesRequired, c.current, c.desired)
			if r.Status != hooksv1.ResponseStatusFailure || !strings.Contains(r.Message, "the KubeadmConfig changes") {
				t.Errorf("the answer is %+v", r)
			}
		})
	}
}

// What is never done in place is answered without a patch: the Machine is replaced, unless it
// must not be.
func TestControlPlaneIsReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		machines  int
		bootstrap string
		says      string
	}{
		"one Machine":             {1, "", "its control plane has 1 Machines"},
		"two Machines":            {2, "", "its control plane has 2 Machines"},
		"patches of kubeadm":      {3, `"joinConfiguration":{"patches":{"directory":"/p"}}`, "patches of kubeadm"},
		"patches of kubeadm init": {3, `"initConfiguration":{"patches":{"directory":"/p"}}`, "patches of kubeadm"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newControlPlane(t, c.machines)
			if r := p.canUpdateMachine("", c.bootstrap); r.Status != hooksv1.ResponseStatusSuccess || r.MachinePatch.IsDefined() {
				t.Errorf("the answer is %+v", r)
			}
			if r := p.canUpdateMachine(infrav1.InPlaceUpdatesRequired, c.bootstrap); r.Status != hooksv1.ResponseStatusFailure || !strings.Contains(r.Message, c.says) {
				t.Errorf("the answer is %+v, want a failure that says %q", r, c.says)
			}
		})
	}
}

// While another host of the control plane is away, or may be, the rollout waits: nothing is
// replaced, and no host begins.
func TestControlPlaneWaits(t *testing.T) {
	for name, c := range map[string]struct {
		disturb func(*controlPlane)
		mend    func(*controlPlane)
		says    string
	}{
		"another is being updated": {
			func(p *controlPlane) { p.annotate("m2", map[string]string{clusterv1.UpdateInProgressAnnotation: ""}) },
			func(p *controlPlane) { p.annotate("m2", nil) }, "Machine m2 is being updated in place"},
		"another host upgrades by hand": {
			func(p *controlPlane) {
				p.agents["m2"].Report(p.t, func(s *infrav1.HostStatus) { s.Inventory.KubernetesVersions = []string{testenv.Version, newVersion} })
				h := p.agents["m2"].Host(p.t)
				if !host.RequestUpgrade(h, newVersion, nil) {
					p.t.Fatal("nothing to request")
				}
				if err := env.Client.Update(p.t.Context(), h); err != nil {
					p.t.Fatal(err)
				}
			},
			func(p *controlPlane) { p.agents["m2"].Obey(p.t, time.Now()) }, "Host host-m2 of Machine m2 is Upgrading"},
		"another agent is away": {
			func(p *controlPlane) { p.agents["m3"].Connect(p.t, false) },
			func(p *controlPlane) { p.agents["m3"].Connect(p.t, true) }, "agent of Host host-m3 is not connected"},
		"its own agent is away": {
			func(p *controlPlane) { p.agent.Connect(p.t, false) },
			func(p *controlPlane) { p.agent.Connect(p.t, true) }, "agent of Host host-1 is not connected"},
		"another has no Node": {
			func(p *controlPlane) { p.node("m2", "") },
			func(p *controlPlane) { p.node("m2", "node-m2") }, "Machine m2 has no Node"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newControlPlane(t, 3)
			c.disturb(p)
			if r := p.canUpdateMachine("", ""); r.Status != hooksv1.ResponseStatusFailure || !strings.Contains(r.Message, c.says) {
				t.Errorf("can it be updated? %+v, want a failure that says %q", r, c.says)
			}
			if r := p.update(); r.Status != hooksv1.ResponseStatusSuccess || r.RetryAfterSeconds == 0 || !strings.Contains(r.Message, c.says) {
				t.Errorf("update it: %+v, want it to wait and say %q", r, c.says)
			}
			if p.get(client.ObjectKeyFromObject(p.infra), p.infra); p.infra.Spec.Version != "" {
				t.Error("the host was asked to upgrade")
			}
			c.mend(p)
			if r := p.canUpdateMachine("", ""); string(r.MachinePatch.Patch) != versionOfMachine {
				t.Errorf("once it is over, the answer is %+v", r)
			}
			if r := p.update(); r.Status != hooksv1.ResponseStatusSuccess || !strings.Contains(r.Message, "is to be upgraded") {
				t.Errorf("once it is over: %+v", r)
			}
		})
	}
}

// An update that has begun goes on whatever the others do: the host looks for itself.
func TestControlPlaneUpdateEnds(t *testing.T) {
	p := newControlPlane(t, 3)
	p.update()
	p.requestUpgrade()
	p.agents["m2"].Connect(t, false)
	if r := p.update(); r.RetryAfterSeconds == 0 || !strings.Contains(r.Message, "The agent has not started the upgrade") {
		t.Errorf("the answer is %+v", r)
	}
	p.agent.Obey(t, time.Now())
	if r := p.update(); r.Status != hooksv1.ResponseStatusSuccess || r.RetryAfterSeconds != 0 {
		t.Errorf("the host runs %s, and the answer is %+v", newVersion, r)
	}
}

func (p *controlPlane) annotate(name string, annotations map[string]string) {
	p.t.Helper()
	m := p.other(name)
	m.Annotations = annotations
	if err := env.Client.Update(p.t.Context(), m); err != nil {
		p.t.Fatal(err)
	}
}
