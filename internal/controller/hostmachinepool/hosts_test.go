package hostmachinepool

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
	"github.com/slipway-dev/slipway/internal/pool"
)

// freeHost is one that any member may claim.
func freeHost(name, rack, machineID string) *infrav1.Host {
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack}}}
	h.Spec.HostID = "key-of-" + name
	h.Status.BootID = "boot"
	h.Status.Conditions = []metav1.Condition{{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue}}
	h.Status.CleanProof = &infrav1.CleanProof{}
	h.Status.Inventory.MachineID, h.Status.Inventory.Architecture = machineID, "amd64"
	h.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	return h
}

// Of three machines that wait for one spare host one will have it: the pool counts none, and never fewer.
func TestSpareHostOfMoreMachines(t *testing.T) {
	requirements := func(rack string) *placement.Requirements {
		t.Helper()
		request := placement.Request{}
		if rack != "" {
			request.Placement.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"rack": rack}}
		}
		parsed, err := placement.Parse(request)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for name, c := range map[string]struct {
		hosts, waiting   []string
		free, freeInRack int
	}{
		"one spare, three wait":               {[]string{"x"}, []string{"", "", ""}, 0, 0},
		"one spare, three wait for another":   {[]string{"x"}, []string{"y", "y", "y"}, 1, 1},
		"two spares, one of three may have x": {[]string{"x", "y"}, []string{"y", "y", "y"}, 1, 1},
		"two spares, all may have either":     {[]string{"x", "y"}, []string{"", "", "x"}, 0, 0},
		"three spares, two wait for one":      {[]string{"x", "x", "x"}, []string{"x", "x"}, 1, 1},
		"who is choosy has the only fit":      {[]string{"x", "y"}, []string{"x", ""}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var hosts []*infrav1.Host
			for i, rack := range c.hosts {
				hosts = append(hosts, freeHost(string(rune('a'+i)), rack, string(rune('1'+i))))
			}
			view, err := viewHosts(placement.Of(hosts...), placement.Request{}, &infrav1.HostMachinePoolSpread{Key: "rack"})
			if err != nil {
				t.Fatal(err)
			}
			var waiting []*placement.Requirements
			for _, rack := range c.waiting {
				waiting = append(waiting, requirements(rack))
			}
			view.count(waiting)
			if view.free != c.free || view.domains[0].Name != "x" || view.domains[0].Free != c.freeInRack {
				t.Errorf("free %d, in x %+v", view.free, view.domains[0])
			}
		})
	}
}

// TestClonedHostsAreNotFree holds that a plan counts no host that shares its identity with another
// one: no member can claim it.
func TestClonedHostsAreNotFree(t *testing.T) {
	hosts := []*infrav1.Host{freeHost("a", "x", "1"), freeHost("b", "x", "2"), freeHost("c", "y", "2")}
	for _, h := range hosts[:1] {
		if why := host.Unavailable(h, true); why != (host.State{}) {
			t.Fatalf("host %s: %+v", h.Name, why)
		}
	}
	view, err := viewHosts(placement.Of(hosts...), placement.Request{}, &infrav1.HostMachinePoolSpread{Key: "rack"})
	if err != nil {
		t.Fatal(err)
	}
	want := []pool.Domain{{Name: "x", Free: 1}, {Name: "y"}}
	if view.free != 1 || len(view.domains) != 2 || view.domains[0] != want[0] || view.domains[1] != want[1] || len(view.byName) != 3 {
		t.Errorf("free %d, domains %+v, want 1 and %+v", view.free, view.domains, want)
	}
}
