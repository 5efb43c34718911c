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

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
)

func ownerScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(infrav1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), controlplanev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// What a machine waits for before it claims a host, one after the other. One that has its host goes on.
func TestWhatAMachineWaitsFor(t *testing.T) {
	scheme := ownerScheme(t)
	for name, c := range map[string]struct {
		cluster, owned, infrastructure, data, leaving, adopts bool
		reason, says                                          string
	}{
		"a Cluster":         {owned: true, infrastructure: true, data: true, reason: infrav1.HostMachineWaitingForClusterReason, says: "label " + clusterv1.ClusterNameLabel},
		"an owner":          {cluster: true, infrastructure: true, data: true, reason: infrav1.HostMachineWaitingForOwnerReason, says: "Machine or MachinePool that owns"},
		"infrastructure":    {cluster: true, owned: true, data: true, reason: clusterv1.WaitingForClusterInfrastructureReadyReason, says: "infrastructure of Cluster c"},
		"bootstrap data":    {cluster: true, owned: true, infrastructure: true, reason: clusterv1.WaitingForBootstrapDataReason, says: "bootstrap data of Machine m"},
		"a deletion's end":  {cluster: true, owned: true, infrastructure: true, data: true, leaving: true, reason: infrav1.HostMachineOwnerDeletingReason, says: "claims no host"},
		"no data, to adopt": {cluster: true, owned: true, infrastructure: true, adopts: true},
		"nothing":           {cluster: true, owned: true, infrastructure: true, data: true},
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
			if c.adopts {
				m.Spec.Adopt.HostName = "h"
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
		stays         bool
		leaves, held  bool
	}{
		"a bootstrap":                  {nil, operation(infrav1.HostDesiredBootstrapped, "a"), false, true, true},
		"a rotated Secret":             {operation(infrav1.HostDesiredBootstrapped, "a"), operation(infrav1.HostDesiredBootstrapped, "a"), false, false, false},
		"an upgrade":                   {operation(infrav1.HostDesiredBootstrapped, "a"), operation(infrav1.HostDesiredUpgraded, "b"), false, true, false},
		"another upgrade":              {operation(infrav1.HostDesiredUpgraded, "a"), operation(infrav1.HostDesiredUpgraded, "b"), false, true, false},
		"an upgrade under way":         {operation(infrav1.HostDesiredUpgraded, "a"), operation(infrav1.HostDesiredUpgraded, "a"), false, false, false},
		"an upgrade of one that stays": {operation(infrav1.HostDesiredBootstrapped, "a"), operation(infrav1.HostDesiredUpgraded, "b"), true, false, false},
		"a reboot":                     {operation(infrav1.HostDesiredUpgraded, "a"), operation(infrav1.HostDesiredRebooted, "b"), false, false, false},
	} {
		// Without its Cluster a machine leaves.
		builder := fake.NewClientBuilder().WithScheme(ownerScheme(t))
		if c.stays {
			builder = builder.WithObjects(
				&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}},
				&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}},
				&infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m",
					OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m"}}}},
			)
		}
		r := &Reconciler{APIReader: builder.Build()}
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

// A machine whose maker goes claims no host, as a live read says: no cache has makers.
func TestMakerThatGoes(t *testing.T) {
	scheme := ownerScheme(t)
	set := func(goes bool) *clusterv1.MachineSet {
		o := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "set", UID: "set"}}
		if goes {
			o.DeletionTimestamp, o.Finalizers = ptr.To(metav1.Now()), []string{"a/b"}
		}
		return o
	}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}}
	machine.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "set", UID: "set", Controller: ptr.To(true)}}
	m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m"}}
	for _, goes := range []bool{false, true} {
		cached := fake.NewClientBuilder().WithScheme(scheme).WithObjects(machine, set(false)).Build()
		r := &Reconciler{Client: cached, APIReader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(machine, set(goes)).Build()}
		owner, err := placement.OwnerOf(t.Context(), cached, m)
		if err != nil {
			t.Fatal(err)
		}
		s := &scope{hostMachine: m, owner: owner}
		leaves, err := r.makerLeaves(t.Context(), s)
		reported := s.waiting != nil && s.waiting.reason == infrav1.HostMachineOwnerDeletingReason && strings.Contains(s.waiting.message, "MachineSet set")
		if err != nil || leaves != goes || reported != goes || (s.waiting != nil) != goes || (s.requeueAfter == makerInterval) != goes {
			t.Errorf("goes %t: leaves %t, waits for %+v, looks again after %s, error %v", goes, leaves, s.waiting, s.requeueAfter, err)
		}
		if leaves, err := r.makerLeaves(t.Context(), &scope{hostMachine: m}); err != nil || leaves {
			t.Errorf("without an owner: leaves %t, error %v", leaves, err)
		}
	}
}

// The first operation of a host waits while its machine leaves, and no later one.
func TestFirstOperationOfALeavingMachine(t *testing.T) {
	for _, c := range []struct {
		leaving string
		begun   bool
		held    bool
	}{{"", false, false}, {"", true, false}, {"Cluster c is being deleted", false, true}, {"Cluster c is being deleted", true, false}} {
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Name: "h"}}
		if c.begun {
			h.Spec.Desired = &infrav1.HostDesired{}
		}
		s := &scope{hostMachine: &infrav1.HostMachine{}, host: h, leaving: c.leaving}
		goes, err := (&Reconciler{}).holdLeaving(t.Context(), s)
		if err != nil || goes == c.held || (s.held != nil) != c.held || c.held && !strings.Contains(s.held.message, c.leaving+": Host h ") {
			t.Errorf("%+v: goes on %t, held %+v, error %v", c, goes, s.held, err)
		}
	}
}
