package hostmachine_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// member makes a machine of a pool.
func (w *world) member(pool *infrav1.HostMachinePool, machinePool *clusterv1.MachinePool) client.ObjectKey {
	w.t.Helper()
	m := testenv.NewMember(w.t, env.Client, machinePool, pool, "workers-1")
	return client.ObjectKeyFromObject(m)
}

// reused is a host that had a claim before.
func reused(h *infrav1.Host) { h.Spec.ClaimGeneration = 1 }

// Core's MachinePool deletes by name a Node that it names and whose providerID it does not
// list: a host that it names becomes a Node again only once the new providerID is listed.
func TestOperationWaitsForTheMachinePool(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1", reused)
	machinePool, pool := testenv.NewMachinePool(t, env.Client, w.namespace, "workers", 1)
	testenv.NameNodes(t, env.Client, machinePool, "host-1")

	key := w.member(pool, machinePool)
	m, result := w.reconcile(key)
	if agent.Host(t).Spec.Claim == nil || m.Spec.ProviderID == "" {
		t.Fatalf("the host is not claimed, so that core never learns of the providerID: %+v", m.Status.Conditions)
	}
	if desired := agent.Host(t).Spec.Desired; desired != nil {
		t.Fatalf("requested %s while core would delete the Node", desired.Phase)
	}
	got := conditions.Get(m, infrav1.BootstrapSucceededCondition)
	if got.Reason != infrav1.WaitingForMachinePoolReason || !strings.Contains(got.Message, "MachinePool workers has yet to take over the providerID") || result.RequeueAfter == 0 {
		t.Errorf("%+v, again after %s", got, result.RequeueAfter)
	}

	machinePool.Spec.ProviderIDList = []string{m.Spec.ProviderID}
	if err := env.Client.Update(t.Context(), machinePool); err != nil {
		t.Fatal(err)
	}
	m, _ = w.reconcile(key)
	if desired := agent.Host(t).Spec.Desired; desired == nil || desired.Phase != infrav1.HostDesiredBootstrapped {
		t.Errorf("no operation once core lists the providerID: %+v", m.Status.Conditions)
	}
}

// What core cannot delete waits for nothing: a pool comes up before core reads its list,
// and a host that never was a Node has none that is named.
func TestOperationDoesNotWaitInVain(t *testing.T) {
	for name, tc := range map[string]struct {
		host  func(*infrav1.Host)
		names []string
		read  bool
	}{
		"core does not read the list yet": {host: reused},
		"the host is new":                 {host: func(*infrav1.Host) {}, names: []string{"host-7"}, read: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			agent := w.host("host-1", tc.host)
			machinePool, pool := testenv.NewMachinePool(t, env.Client, w.namespace, "workers", 1)
			if tc.read {
				testenv.NameNodes(t, env.Client, machinePool, tc.names...)
			}
			m, _ := w.reconcile(w.member(pool, machinePool))
			if agent.Host(t).Spec.Desired == nil {
				t.Errorf("no operation: %+v", m.Status.Conditions)
			}
		})
	}
}

// A MachinePool that lists other machines deletes the Node of anybody's host that it names.
func TestClaimWaitsForAnotherMachinePool(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1", reused)
	machinePool, _ := testenv.NewMachinePool(t, env.Client, w.namespace, "workers", 1)
	testenv.NameNodes(t, env.Client, machinePool, "host-1")
	key := w.machine("m1")
	m, _ := w.reconcile(key)
	if got := conditions.GetMessage(m, infrav1.HostClaimedCondition); agent.Host(t).Spec.Claim != nil || !strings.Contains(got, "MachinePool workers still names its former Node") {
		t.Fatalf("claimed, or not told why not: %q", got)
	}
	// Should core name the Node after the claim, the operation waits.
	testenv.NameNodes(t, env.Client, machinePool)
	if m, _ = w.reconcile(key); m.Spec.ProviderID == "" || agent.Host(t).Spec.Desired == nil {
		t.Fatalf("not requested once no MachinePool names the Node: %+v", m.Status.Conditions)
	}
}

// A HostMachine that is deleted directly releases its host before anybody deletes its
// Machine, whose Node core deletes by name.
func TestHostIsFreeOnceADirectlyDeletedMachineIsGone(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	key := w.machine("former", func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
		m.Finalizers = []string{clusterv1.MachineFinalizer}
	})
	m, _ := w.reconcile(key)
	former := &clusterv1.Machine{}
	if err := env.Client.Get(t.Context(), key, former); err != nil {
		t.Fatal(err)
	}
	former.Spec.ProviderID = m.Spec.ProviderID
	if err := env.Client.Update(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	agent.Obey(t, w.clock.Now())
	w.reconcile(key)
	w.delete(key)
	w.reconcile(key)
	agent.Obey(t, w.clock.Now())
	w.clear(agent)

	// The host is clean and free, and its HostMachine not gone yet: two would name it.
	next := w.machine("next")
	if m, _ := w.reconcile(next); m.Spec.ProviderID != "" {
		t.Fatal("claimed while the former HostMachine names the host")
	}
	if m, _ := w.reconcile(key); m != nil {
		t.Fatalf("the former HostMachine stays: %+v", m.Status.Conditions)
	}
	if m, _ := w.reconcile(next); m.Spec.ProviderID != "" {
		t.Fatal("claimed while the former Machine, which nobody deletes yet, names the host")
	}
	former.Finalizers = nil
	if err := env.Client.Update(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	if m, _ := w.reconcile(next); m.Spec.ProviderID == "" {
		t.Errorf("not claimed once the former Machine is gone: %+v", m.Status.Conditions)
	}
}
