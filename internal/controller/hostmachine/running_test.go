package hostmachine_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

const nextVersion = "v1.37.0"

// runs brings a machine to a host that offers two versions.
func runs(t *testing.T) (*world, *testenv.Agent, client.ObjectKey) {
	t.Helper()
	w := newWorld(t)
	agent := w.host("host-1")
	agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory.KubernetesVersions = []string{testenv.Version, nextVersion} })
	key := w.machine("m1")
	w.reconcile(key)
	agent.Obey(t, w.clock.Now())
	w.reconcile(key)
	return w, agent, key
}

func (w *world) change(key client.ObjectKey, mutate func(*infrav1.HostMachineSpec)) *infrav1.HostMachine {
	w.t.Helper()
	m := w.get(key)
	mutate(&m.Spec)
	if err := env.Client.Update(context.Background(), m); err != nil {
		w.t.Fatal(err)
	}
	m, _ = w.reconcile(key)
	return m
}

func wantCondition(t *testing.T, m *infrav1.HostMachine, conditionType, reason, message string) {
	t.Helper()
	got := conditions.Get(m, conditionType)
	if got == nil || got.Reason != reason || !strings.Contains(got.Message, message) {
		t.Errorf("%s = %+v, want %s: %s", conditionType, got, reason, message)
	}
}

func TestUpgradeInPlace(t *testing.T) {
	w, agent, key := runs(t)
	if m := w.get(key); m.Status.Version != testenv.Version || !conditions.IsTrue(m, infrav1.UpToDateCondition) {
		t.Fatalf("status = %+v", m.Status)
	}
	m := w.change(key, func(s *infrav1.HostMachineSpec) { s.Version = nextVersion })
	desired := agent.Host(t).Spec.Desired
	if desired.Phase != infrav1.HostDesiredUpgraded || desired.Version != nextVersion || desired.OperationID != "upgrade-"+m.Spec.ClaimID+"-"+nextVersion {
		t.Fatalf("desired = %+v", desired)
	}
	if desired.BootstrapSecretName != "" {
		t.Errorf("the upgrade names Secret %s", desired.BootstrapSecretName)
	}
	wantCondition(t, m, infrav1.UpToDateCondition, "Upgrading", "")
	if m.Status.Version != testenv.Version {
		t.Errorf("version %s before the upgrade is done", m.Status.Version)
	}

	agent.FailNext = "kubeadm upgrade node exited with 1"
	agent.Obey(t, w.clock.Now())
	m, _ = w.reconcile(key)
	wantCondition(t, m, infrav1.UpToDateCondition, "UpgradeFailed", "kubeadm upgrade node exited with 1. Mend the host")
	if !conditions.IsTrue(m, clusterv1.ReadyCondition) || !ptr.Deref(m.Status.Initialization.Provisioned, false) {
		t.Errorf("a failed upgrade fails the machine: %+v", m.Status.Conditions)
	}

	m = w.change(key, func(s *infrav1.HostMachineSpec) { s.Reboots = ptr.To[int32](1) })
	wantCondition(t, m, infrav1.RebootedCondition, "Rebooting", "")
	if desired := agent.Host(t).Spec.Desired; desired.Phase != infrav1.HostDesiredRebooted || desired.OperationID != "reboot-"+m.Spec.ClaimID+"-1" {
		t.Fatalf("desired = %+v", desired)
	}
	agent.Obey(t, w.clock.Now())
	m, _ = w.reconcile(key)
	if agent.Host(t).Spec.Desired.Phase != infrav1.HostDesiredUpgraded {
		t.Fatalf("no second try after the reboot: %+v", agent.Host(t).Spec.Desired)
	}
	wantCondition(t, m, infrav1.RebootedCondition, "Rebooted", "")
	agent.Obey(t, w.clock.Now())
	m, _ = w.reconcile(key)
	if m.Status.Version != nextVersion || !conditions.IsTrue(m, infrav1.UpToDateCondition) {
		t.Errorf("status = %+v", m.Status)
	}
}

// A move loses the status. What the spec of the Host says must be enough to see
// that the machine runs.
func TestUpgradedMachineSurvivesLossOfStatus(t *testing.T) {
	w, agent, key := runs(t)
	w.change(key, func(s *infrav1.HostMachineSpec) { s.Version = nextVersion })
	m := w.get(key)
	m.Status = infrav1.HostMachineStatus{FailureDomain: "x"}
	if err := env.Client.Status().Update(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	m, _ = w.reconcile(key)
	if !ptr.Deref(m.Status.Initialization.Provisioned, false) {
		t.Errorf("the machine is not provisioned any more: %+v", m.Status)
	}
	if desired := agent.Host(t).Spec.Desired; desired.BootstrapSecretName != "" || desired.Phase != infrav1.HostDesiredUpgraded {
		t.Errorf("desired = %+v", desired)
	}
}

func TestUpgradeToVersionThatIsNotThere(t *testing.T) {
	w, agent, key := runs(t)
	m := w.change(key, func(s *infrav1.HostMachineSpec) { s.Version = "v1.99.0" })
	wantCondition(t, m, infrav1.UpToDateCondition, "VersionNotOffered", "Host host-1 does not offer Kubernetes v1.99.0")
	if desired := agent.Host(t).Spec.Desired; desired.Phase != infrav1.HostDesiredBootstrapped {
		t.Errorf("desired = %+v", desired)
	}
}

func TestEvacuatedHost(t *testing.T) {
	w, agent, key := runs(t)
	h := agent.Host(t)
	h.Spec.Evacuate = ptr.To(true)
	if err := env.Client.Update(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	m, _ := w.reconcile(key)
	wantCondition(t, m, infrav1.EvacuatingCondition, "Evacuate", "Host host-1")
	if !conditions.IsTrue(m, clusterv1.ReadyCondition) || agent.Host(t).Spec.Desired.Phase != infrav1.HostDesiredBootstrapped {
		t.Errorf("the machine does not serve on until it is replaced: %+v", m.Status.Conditions)
	}
	h = agent.Host(t)
	h.Spec.Evacuate = nil
	if err := env.Client.Update(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	if m, _ = w.reconcile(key); conditions.Has(m, infrav1.EvacuatingCondition) {
		t.Error("the condition outlives its cause")
	}
}
