package hostmachine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// kubeconfig makes the Secret by which Cluster API reaches the cluster, and returns the
// hashes of its certificate authorities.
func (w *world) kubeconfig() []string {
	w.t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://10.88.0.200:6443", CertificateAuthorityData: env.Config.CAData}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c"}
	c.CurrentContext = "x"
	data, err := clientcmd.Write(*c)
	if err != nil {
		w.t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: testenv.ClusterName + "-kubeconfig"}, Data: map[string][]byte{"value": data}}
	if err := env.Client.Create(context.Background(), secret); err != nil {
		w.t.Fatal(err)
	}
	return host.HashCAs(env.Config.CAData)
}

// node is a host on which somebody else has joined a node.
func (w *world) node(name string) *testenv.Agent {
	w.t.Helper()
	agent := w.host(name)
	agent.Report(w.t, func(s *infrav1.HostStatus) { s.CleanProof, s.Residue = nil, []string{"process kubelet (PID 7)"} })
	return agent
}

// adopt is a machine that asks for the node on host-1. It has no bootstrap data.
func (w *world) adopt(name string, mutate ...func(*clusterv1.Machine, *infrav1.HostMachine)) client.ObjectKey {
	w.t.Helper()
	asks := func(machine *clusterv1.Machine, m *infrav1.HostMachine) {
		machine.Spec.Bootstrap.DataSecretName = ptr.To("")
		m.Spec.Adopt.HostName = "host-1"
	}
	return w.machine(name, append([]func(*clusterv1.Machine, *infrav1.HostMachine){asks}, mutate...)...)
}

func TestAdoption(t *testing.T) {
	w := newWorld(t)
	authorities := w.kubeconfig()
	w.host("host-0") // would be placement's choice
	agent := w.node("host-1")
	key := w.adopt("m1")

	m, _ := w.reconcile(key)
	h := agent.Host(t)
	if h.Spec.Claim == nil || h.Spec.Claim.ClaimID != m.Spec.ClaimID || !ptr.Deref(h.Spec.Claim.Adopt, false) {
		t.Fatalf("claim = %+v; %+v", h.Spec.Claim, m.Status.Conditions)
	}
	d := h.Spec.Desired
	if d.Phase != infrav1.HostDesiredAdopted || d.OperationID != "adopt-"+m.Spec.ClaimID || d.ProviderID != m.Spec.ProviderID || d.Version != testenv.Version || d.BootstrapSecretName != "" {
		t.Errorf("desired = %+v", d)
	}
	if len(authorities) != 1 || len(d.ClusterCAs) != 1 || d.ClusterCAs[0] != authorities[0] {
		t.Errorf("certificate authorities %q, want %q", d.ClusterCAs, authorities)
	}
	if ptr.Deref(m.Status.Initialization.Provisioned, false) {
		t.Error("provisioned before the agent reported")
	}

	agent.Obey(t, w.clock.Now())
	m, _ = w.reconcile(key)
	if !ptr.Deref(m.Status.Initialization.Provisioned, false) || !conditions.IsTrue(m, clusterv1.ReadyCondition) || m.Status.Version != testenv.Version || len(m.Status.Addresses) != 1 {
		t.Errorf("status = %+v", m.Status)
	}
	if d := agent.Host(t).Spec.Desired; !ptr.Deref(d.Bootstrapped, false) || d.Phase != infrav1.HostDesiredAdopted {
		t.Errorf("the adoption is not on record: %+v", d)
	}

	w.change(key, func(s *infrav1.HostMachineSpec) { s.Reboots = ptr.To[int32](1) })
	if d := agent.Host(t).Spec.Desired; d.Phase != infrav1.HostDesiredRebooted {
		t.Errorf("not rebooted as others are: %+v", d)
	}
	agent.Obey(t, w.clock.Now())
	w.reconcile(key)
	w.delete(key)
	if w.reconcile(key); agent.Host(t).Spec.Desired.Phase != infrav1.HostDesiredReset {
		t.Fatalf("not reset as others are: %+v", agent.Host(t).Spec.Desired)
	}
	agent.Obey(t, w.clock.Now())
	w.clear(agent)
	if m, _ = w.reconcile(key); m != nil {
		t.Errorf("the machine does not go after its release: %+v", m.Status)
	}
}

func TestAdoptionMustWait(t *testing.T) {
	for name, tc := range map[string]struct {
		before  func(*world)
		machine func(*clusterv1.Machine, *infrav1.HostMachine)
		reason  string
		message string
	}{
		"no such host": {func(w *world) { w.node("host-2") }, nil, "HostNotFound", "no Host host-1"},
		"clean host":   {func(w *world) { w.host("host-1") }, nil, infrav1.HostMachineNothingToAdoptReason, "clean"},
		"claimed host": {func(w *world) {
			w.node("host-1")
			w.reconcile(w.adopt("first"))
		}, nil, infrav1.HostMachineHostTakenReason, "HostMachine first"},
		"agent away": {func(w *world) {
			w.node("host-1").Connect(w.t, false)
		}, nil, infrav1.HostAgentNotConnectedReason, "start slipway-agent"},
		"another version": {func(w *world) { w.node("host-1") }, func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Spec.Version = "v1.35.0" },
			"VersionMismatch", "Machine m1 asks for v1.35.0"},
		"control plane": {func(w *world) { w.node("host-1") }, func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
			m.Labels = map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName, clusterv1.MachineControlPlaneLabel: ""}
		}, "WorkersOnly", "only workers"},
		"former Machine": {func(w *world) {
			w.node("host-1")
			former := &clusterv1.Machine{}
			w.machine("former", func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
				m.Finalizers, m.Spec.ProviderID = []string{clusterv1.MachineFinalizer}, infrav1.ProviderID(w.namespace, "host-1", "former")
				former = m
			})
			if err := env.Client.Delete(context.Background(), former); err != nil {
				w.t.Fatal(err)
			}
		}, nil, "NodeLeaving", "former Machine"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.kubeconfig()
			tc.before(w)
			if tc.machine == nil {
				tc.machine = func(*clusterv1.Machine, *infrav1.HostMachine) {}
			}
			m, _ := w.reconcile(w.adopt("m1", tc.machine))
			wantCondition(t, m, infrav1.HostClaimedCondition, tc.reason, tc.message)
			if m.Spec.ProviderID != "" {
				t.Errorf("claimed all the same: %s", m.Spec.ProviderID)
			}
		})
	}
}

// A cluster whose certificate authority is not known adopts nothing.
func TestAdoptionWaitsForTheCluster(t *testing.T) {
	w := newWorld(t)
	agent := w.node("host-1")
	key := w.adopt("m1")
	m, result := w.reconcile(key)
	wantCondition(t, m, infrav1.HostClaimedCondition, "WaitingForClusterCA", "c1-kubeconfig")
	if agent.Host(t).Spec.Claim != nil || result.RequeueAfter == 0 {
		t.Errorf("claim %+v, next look after %s", agent.Host(t).Spec.Claim, result.RequeueAfter)
	}
	w.kubeconfig()
	if m, _ = w.reconcile(key); m.Spec.ProviderID == "" {
		t.Errorf("not claimed: %+v", m.Status.Conditions)
	}
}

// TestRefusedAdoption ends with a host that is free, and as it was, and a machine that
// says why.
func TestRefusedAdoption(t *testing.T) {
	w := newWorld(t)
	w.kubeconfig()
	agent := w.node("host-1")
	key := w.adopt("m1")
	w.reconcile(key)
	agent.FailNext = "this host is a node of another cluster"
	agent.Obey(t, w.clock.Now())
	w.reconcile(key)
	m, _ := w.reconcile(key)
	h := agent.Host(t)
	if h.Spec.Claim != nil || h.Spec.Desired != nil {
		t.Fatalf("the host is not given back: %+v", h.Spec)
	}
	for range 2 {
		wantCondition(t, m, infrav1.HostClaimedCondition, "AdoptionRefused", "this host is a node of another cluster. Delete the Machine")
		wantCondition(t, m, clusterv1.ReadyCondition, "AdoptionRefused", "")
		m, _ = w.reconcile(key)
	}
	if state := host.StateOf(agent.Host(t)); state.Reason != infrav1.HostAdoptionRefusedReason || !strings.Contains(state.Message, "`slipway host adopt host-1 ") {
		t.Errorf("the host is %+v", state)
	}
	w.delete(key)
	if m, _ = w.reconcile(key); m != nil {
		t.Errorf("the machine does not go: %+v", m.Status)
	}

	// Another machine may ask again, for a claim of its own.
	next := w.adopt("m2")
	w.reconcile(next)
	agent.Obey(t, w.clock.Now())
	if m, _ = w.reconcile(next); !conditions.IsTrue(m, clusterv1.ReadyCondition) {
		t.Errorf("conditions %+v", m.Status.Conditions)
	}
}

// A machine that is deleted before its node is adopted leaves the node alone.
func TestDeletionBeforeTheAdoption(t *testing.T) {
	for name, report := range map[string]func(*testing.T, *testenv.Agent){
		"operation not seen": func(*testing.T, *testenv.Agent) {},
		"at work": func(t *testing.T, agent *testenv.Agent) {
			t.Helper()
			d := agent.Host(t)
			agent.Report(t, func(s *infrav1.HostStatus) {
				s.ObservedOperation = &infrav1.ObservedOperation{ID: d.Spec.Desired.OperationID, ClaimID: d.Spec.Claim.ClaimID, Phase: d.Spec.Desired.Phase, State: infrav1.OperationRunning}
			})
		},
		"refused": func(t *testing.T, agent *testenv.Agent) {
			t.Helper()
			agent.FailNext = "no"
			agent.Obey(t, time.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.kubeconfig()
			agent := w.node("host-1")
			key := w.adopt("m1")
			w.reconcile(key)
			report(t, agent)
			w.delete(key)
			m, _ := w.reconcile(key)
			if h := agent.Host(t); m != nil || h.Spec.Claim != nil || h.Spec.Desired != nil || h.Spec.ClaimGeneration != 1 {
				t.Errorf("machine %+v, host %+v", m, h.Spec)
			}
		})
	}
}

// A manager killed after any of its writes leaves a state from which the next one
// adopts the node all the same, and never resets the host.
func TestCrashInAnAdoption(t *testing.T) {
	testenv.KilledAtEachWrite(t, 2, func(t *testing.T, crash *testenv.Crash) {
		w := crashWorld(t)
		w.kubeconfig()
		agent := w.node("host-1")
		key := w.adopt("m1")
		killed := w.reconciler(testenv.NewCrashing(env.Client, crash))
		for range 10 {
			if _, err := killed.Reconcile(context.Background(), ctrl.Request{NamespacedName: key}); err != nil && !errors.Is(err, testenv.ErrCrashed) && !strings.Contains(err.Error(), testenv.ErrCrashed.Error()) {
				t.Fatal(err)
			}
		}
		m, _ := w.reconcile(key)
		h := agent.Host(t)
		if h.Spec.ClaimGeneration != 1 || h.Spec.Claim == nil || h.Spec.Claim.ClaimID != m.Spec.ClaimID || h.Spec.Desired.Phase != infrav1.HostDesiredAdopted {
			t.Errorf("generation %d, claim %+v, desired %+v", h.Spec.ClaimGeneration, h.Spec.Claim, h.Spec.Desired)
		}
	})
}
