package hostcluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// rackedHosts makes one host in each of these racks; the rack tells about the host.
func rackedHosts(t *testing.T, namespace string) {
	t.Helper()
	claim := func(machine string) *infrav1.HostClaim {
		return &infrav1.HostClaim{ClusterName: "c1", MachineName: machine, ClaimID: "claim-of-" + machine}
	}
	release := func(h *infrav1.Host) {
		h.Spec.Claim, h.Spec.ClaimGeneration = claim("gone-1"), 1
		host.RequestReset(h, "")
	}
	for rack, change := range map[string]func(*infrav1.Host){
		"free":           func(*infrav1.Host) {},
		"away":           func(*infrav1.Host) {},
		"enrolling":      func(*infrav1.Host) {},
		"released":       release,
		"released-away":  release,
		"quarantined":    func(h *infrav1.Host) { h.Spec.ClaimGeneration = 1 },
		"orphaned":       func(h *infrav1.Host) { h.Spec.Claim, h.Spec.ClaimGeneration = claim("gone-2"), 1 },
		"of-the-other":   func(h *infrav1.Host) { h.Spec.Claim, h.Spec.ClaimGeneration = claim("other-plane-1"), 1 },
		"held":           func(h *infrav1.Host) { h.Spec.Claim, h.Spec.ClaimGeneration = claim("plane-1"), 1 },
		"of-a-worker":    func(h *infrav1.Host) { h.Spec.Claim, h.Spec.ClaimGeneration = claim("worker-1"), 1 },
		"for-workers":    func(h *infrav1.Host) { h.Labels["role"] = "worker" },
		"unschedulable":  func(h *infrav1.Host) { h.Spec.Unschedulable = ptr.To(true) },
		"evacuated":      func(h *infrav1.Host) { h.Spec.Evacuate = ptr.To(true) },
		"pending":        func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalPending },
		"denied":         func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalDenied },
		"deleted":        func(h *infrav1.Host) { h.Finalizers = []string{infrav1.HostFinalizer} },
		"leaving":        func(h *infrav1.Host) { h.Spec.AssignedNamespace = "other" },
		"older-versions": func(*infrav1.Host) {},
	} {
		agent := testenv.NewHost(t, env.Client, namespace, "host-"+rack, time.Now(), func(h *infrav1.Host) {
			h.Labels, h.Spec.FailureDomain = map[string]string{"role": "plane"}, rack
			change(h)
		})
		switch rack {
		case "quarantined":
			agent.Report(t, func(s *infrav1.HostStatus) { s.CleanProof = nil })
		case "older-versions":
			agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory.KubernetesVersions = []string{"v1.30.0"} })
		case "enrolling":
			agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory.KubernetesVersions = nil })
		}
		if rack == "deleted" {
			if err := env.Client.Delete(ctx, agent.Host(t)); err != nil {
				t.Fatal(err)
			}
		}
		agent.Connect(t, !strings.HasSuffix(rack, "away") && rack != "held")
	}
	for name, labels := range map[string]map[string]string{
		"plane-1":       {clusterv1.ClusterNameLabel: "c1", clusterv1.MachineControlPlaneLabel: ""},
		"other-plane-1": {clusterv1.ClusterNameLabel: "c2", clusterv1.MachineControlPlaneLabel: ""},
		"worker-1":      {clusterv1.ClusterNameLabel: "c1"},
	} {
		create(t, &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}})
	}
}

func create(t *testing.T, o client.Object) {
	t.Helper()
	if err := env.Client.Create(ctx, o); err != nil {
		t.Fatal(err)
	}
}

func newControlPlane(t *testing.T, namespace string) {
	t.Helper()
	template := &infrav1.HostMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "plane"}}
	template.Spec.Template.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": "plane"}}
	create(t, template)
	plane := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "plane"}}
	plane.Spec.Version = testenv.Version
	plane.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachineTemplate", Name: "plane",
	}
	create(t, plane)
}

// forControlPlanes are the domains that control planes may use.
func forControlPlanes(hc *infrav1.HostCluster) string {
	var names []string
	for _, domain := range hc.Status.FailureDomains {
		if ptr.Deref(domain.ControlPlane, false) {
			names = append(names, domain.Name)
		}
	}
	return strings.Join(names, " ")
}

// KubeadmControlPlane chooses a domain first and waits for a host in it for ever: it may
// only choose among those with free hosts for it, as long as there are some.
func TestFailureDomainsOfTheControlPlane(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	rackedHosts(t, namespace)
	hc := &infrav1.HostCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}}
	hc.OwnerReferences = []metav1.OwnerReference{newCluster(t, namespace, func(c *clusterv1.Cluster) {
		c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "plane"}
	})}
	hc.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 6443}
	create(t, hc)

	// Nothing is said while nothing is known.
	hc = reconcile(t, hc)
	if ready := conditions.Get(hc, clusterv1.ReadyCondition); ready.Status != metav1.ConditionFalse || ready.Message != "Waiting for KubeadmControlPlane plane, which says where control planes may be" {
		t.Errorf("Ready = %+v", ready)
	}
	if ptr.Deref(hc.Status.Initialization.Provisioned, false) {
		t.Error("provisioned before it is known where control planes may be")
	}

	newControlPlane(t, namespace)
	expect := func(why, want string) {
		t.Helper()
		hc = reconcile(t, hc)
		if got := forControlPlanes(hc); got != want || len(hc.Status.FailureDomains) != 18 {
			t.Errorf("%s: for control planes %q, want %q, of %v", why, got, want, hc.Status.FailureDomains)
		}
	}
	expect("where hosts are free, or soon are", "enrolling free released")
	if !ptr.Deref(hc.Status.Initialization.Provisioned, false) || !conditions.IsTrue(hc, clusterv1.ReadyCondition) {
		t.Errorf("not provisioned: %+v", hc.Status)
	}

	surplus := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "plane-2", Labels: map[string]string{
		clusterv1.ClusterNameLabel: "c1", clusterv1.MachineControlPlaneLabel: "",
	}}}
	create(t, surplus)
	expect("one machine too many, so that one is deleted next", "enrolling free held released")
	if err := env.Client.Delete(ctx, surplus); err != nil {
		t.Fatal(err)
	}
	expect("as many machines as wanted", "enrolling free released")

	for _, rack := range []string{"free", "enrolling", "released"} {
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "host-" + rack}}
		if err := env.Client.Patch(ctx, h, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`))); err != nil {
			t.Fatal(err)
		}
	}
	expect("no host is free", "away held orphaned quarantined released-away")

	hc.Spec.FailureDomains = []clusterv1.FailureDomain{
		{Name: "held"}, {Name: "for-workers"}, {Name: "unschedulable", ControlPlane: ptr.To(true)},
		{Name: "free", ControlPlane: ptr.To(false), Attributes: map[string]string{"row": "7"}},
	}
	if err := env.Client.Update(ctx, hc); err != nil {
		t.Fatal(err)
	}
	hc = reconcile(t, hc)
	if got, want := forControlPlanes(hc), "held unschedulable"; got != want {
		t.Errorf("for control planes %q, want %q as the spec says", got, want)
	}
	domains := hc.Status.FailureDomains
	if !slices.IsSortedFunc(domains, func(a, b clusterv1.FailureDomain) int { return strings.Compare(a.Name, b.Name) }) ||
		len(domains) != 4 || fmt.Sprint(domains[1].Attributes) != "map[row:7]" {
		t.Errorf("domains %v", domains)
	}
}
