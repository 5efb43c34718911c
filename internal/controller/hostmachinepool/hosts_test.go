package hostmachinepool

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
	"github.com/slipway-dev/slipway/internal/remediation"
	"github.com/slipway-dev/slipway/internal/rollout"
)

// freeHost is one that any member may claim.
func freeHost(name, rack, machineID string) placement.Candidate {
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack}}}
	h.Spec.HostID = "key-of-" + name
	h.Status.BootID = "boot"
	h.Status.CleanProof = &infrav1.CleanProof{}
	h.Status.Inventory.MachineID, h.Status.Inventory.Architecture = machineID, "amd64"
	h.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	return placement.Candidate{Host: h, Connected: true}
}

// TestClonedHostsAreNotFree holds that a plan counts no host that shares its identity with another
// one: no member can claim it.
func TestClonedHostsAreNotFree(t *testing.T) {
	hosts := []placement.Candidate{freeHost("a", "x", "1"), freeHost("b", "x", "2"), freeHost("c", "y", "2")}
	for _, candidate := range hosts[:1] {
		if why := host.Unavailable(candidate.Host, true); why != (host.State{}) {
			t.Fatalf("host %s: %+v", candidate.Host.Name, why)
		}
	}
	view, err := viewHosts(hosts, placement.Request{}, &infrav1.HostMachinePoolSpread{Key: "rack"})
	if err != nil {
		t.Fatal(err)
	}
	want := []rollout.Domain{{Name: "x", Free: 1}, {Name: "y"}}
	if view.free != 1 || len(view.domains) != 2 || view.domains[0] != want[0] || view.domains[1] != want[1] || len(view.byName) != 3 {
		t.Errorf("free %d, domains %+v, want 1 and %+v", view.free, view.domains, want)
	}
}

// TestSparesOfADomain holds that the host that one member waits for is no spare to another one
// of the same failure domain, in whatever order the members come.
func TestSparesOfADomain(t *testing.T) {
	pool := &infrav1.HostMachinePool{}
	pool.Spec.Spread = &infrav1.HostMachinePoolSpread{Key: "rack", Hard: ptr.To(true)}
	machinePool := &clusterv1.MachinePool{}
	machinePool.Spec.Replicas = ptr.To[int32](2)
	s := newScope(pool, machinePool, nil)
	s.revision = "r"
	for _, name := range []string{"runs", "waits"} {
		m := infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{infrav1.RevisionLabel: "r"}}}
		m.Spec.Spread = &infrav1.SpreadDomain{Key: "rack", Value: "x"}
		if name == "runs" {
			m.Spec.ProviderID = "claimed"
		}
		s.hostMachines = append(s.hostMachines, m)
	}
	s.hosts = &hostView{key: "rack", free: 1, domains: []rollout.Domain{{Name: "x", Free: 1}}}
	for _, order := range [][]string{{"runs", "waits"}, {"waits", "runs"}} {
		in := remediation.Input{Members: []remediation.Member{{Name: order[0]}, {Name: order[1]}}}
		if err := s.spread(&in); err != nil {
			t.Fatal(err)
		}
		if got := in.DomainSpares["x"]; got != 0 || in.Members[0].Domain != "x" || in.Members[1].Domain != "x" {
			t.Errorf("members %v: %d spare hosts, members %+v", order, got, in.Members)
		}
	}
}
