package hostmachine

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

func ownerScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(infrav1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// What a machine waits for before it claims a host, one after the other. One that has its host goes on.
func TestWhatAMachineWaitsFor(t *testing.T) {
	scheme := ownerScheme(t)
	for name, c := range map[string]struct {
		cluster, owned, infrastructure, data, leaving bool
		reason, says                                  string
	}{
		"a Cluster":        {owned: true, infrastructure: true, data: true, reason: infrav1.HostMachineWaitingForClusterReason, says: "label " + clusterv1.ClusterNameLabel},
		"an owner":         {cluster: true, infrastructure: true, data: true, reason: infrav1.HostMachineWaitingForOwnerReason, says: "Machine or MachinePool that owns"},
		"infrastructure":   {cluster: true, owned: true, data: true, reason: clusterv1.WaitingForClusterInfrastructureReadyReason, says: "infrastructure of Cluster c"},
		"bootstrap data":   {cluster: true, owned: true, infrastructure: true, reason: clusterv1.WaitingForBootstrapDataReason, says: "bootstrap data of Machine m"},
		"a deletion's end": {cluster: true, owned: true, infrastructure: true, data: true, leaving: true, reason: infrav1.HostMachineOwnerDeletingReason, says: "claims no host"},
		"nothing":          {cluster: true, owned: true, infrastructure: true, data: true},
	} {
		for _, claimed := range []bool{false, true} {
			machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}}
			if c.data {
				machine.Spec.Bootstrap.DataSecretName = ptr.To("data")
			}
			m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}}
			if c.owned {
				m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m"}}
			}
			if claimed {
				m.Spec.ProviderID = infrav1.ProviderID("n", "h", "claim")
			}
			s := &scope{hostMachine: m}
			if c.cluster {
				s.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}
				s.cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(c.infrastructure)
				if c.leaving {
					s.cluster.DeletionTimestamp = ptr.To(metav1.Now())
				}
			}
			r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(machine).Build()}
			next, err := r.findOwner(t.Context(), s)
			if err != nil || next != (claimed || c.reason == "") {
				t.Errorf("%s, claimed %t: goes on: %t, error %v", name, claimed, next, err)
			}
			switch {
			case c.reason == "" && s.waiting != nil:
				t.Errorf("%s, claimed %t: waits for %+v", name, claimed, s.waiting)
			case c.reason != "" && (s.waiting == nil || s.waiting.reason != c.reason || !strings.Contains(s.waiting.message, c.says)):
				t.Errorf("%s, claimed %t: waits for %+v", name, claimed, s.waiting)
			}
		}
	}
}

// Which operations the host of a machine that leaves still gets: none begins, and none upgrades it. What
// is under way is changed, and the host may be rebooted.
func TestOperationsOfALeavingMachine(t *testing.T) {
	operation := func(phase infrav1.HostDesiredPhase, id string) *infrav1.HostDesired {
		return &infrav1.HostDesired{Phase: phase, OperationID: id}
	}
	for name, c := range map[string]struct {
		before, after *infrav1.HostDesired
		leaves, held  bool
	}{
		"a bootstrap":          {nil, operation(infrav1.HostDesiredBootstrapped, "a"), true, true},
		"a rotated Secret":     {operation(infrav1.HostDesiredBootstrapped, "a"), operation(infrav1.HostDesiredBootstrapped, "a"), false, false},
		"an upgrade":           {operation(infrav1.HostDesiredBootstrapped, "a"), operation(infrav1.HostDesiredUpgraded, "b"), true, false},
		"another upgrade":      {operation(infrav1.HostDesiredUpgraded, "a"), operation(infrav1.HostDesiredUpgraded, "b"), true, false},
		"an upgrade under way": {operation(infrav1.HostDesiredUpgraded, "a"), operation(infrav1.HostDesiredUpgraded, "a"), false, false},
		"a reboot":             {operation(infrav1.HostDesiredUpgraded, "a"), operation(infrav1.HostDesiredRebooted, "b"), false, false},
	} {
		// Without its Cluster a machine leaves.
		r := &Reconciler{APIReader: fake.NewClientBuilder().WithScheme(ownerScheme(t)).Build()}
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h"}, Spec: infrav1.HostSpec{Claim: &infrav1.HostClaim{ClusterName: "c"}, Desired: c.before}}
		s := &scope{hostMachine: &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}}, host: h}
		changed := h.DeepCopy()
		changed.Spec.Desired = c.after
		leaves, err := r.leaves(context.Background(), s, changed)
		if err != nil || leaves != c.leaves || (s.held != nil) != c.held {
			t.Errorf("%s: leaves %t, held %+v, error %v", name, leaves, s.held, err)
		}
	}
}
