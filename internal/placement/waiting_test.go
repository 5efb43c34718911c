package placement_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
)

// A host counts for one machine, and machines give way where they can have another one.
func TestTaken(t *testing.T) {
	hosts := []*infrav1.Host{aHost("1"), aHost("2"), aHost("3")}
	wants := func(names ...string) *placement.Requirements {
		t.Helper()
		c, err := placement.Parse(inZones(names...))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, c := range map[string]struct {
		waiting []*placement.Requirements
		want    int
	}{
		"nobody waits":             {nil, 0},
		"one of many":              {[]*placement.Requirements{wants("1", "2", "3")}, 1},
		"for no host":              {[]*placement.Requirements{wants("4")}, 0},
		"for one host":             {[]*placement.Requirements{wants("1"), wants("1")}, 1},
		"the first gives way":      {[]*placement.Requirements{wants("1", "2"), wants("1")}, 2},
		"the first two give way":   {[]*placement.Requirements{wants("1", "2"), wants("2", "3"), wants("1", "2")}, 3},
		"more machines than hosts": {[]*placement.Requirements{wants("1", "2", "3"), wants("1", "2"), wants("2", "3"), wants("3")}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if got := placement.Of(hosts...).Taken(c.waiting, hosts); got != c.want {
				t.Errorf("%d hosts are taken, want %d", got, c.want)
			}
		})
	}
}

// inZones asks for a host of one of these names.
func inZones(hosts ...string) placement.Request {
	zones := metav1.LabelSelectorRequirement{Key: "zone", Operator: metav1.LabelSelectorOpIn}
	for _, h := range hosts {
		zones.Values = append(zones.Values, "z-"+h)
	}
	return placement.Request{Placement: infrav1.Placement{HostSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{zones}}}}
}

// most is how many machines get a host, by trying everything.
func most(machines [][]string, hosts map[string]bool) int {
	if len(machines) == 0 {
		return 0
	}
	best := most(machines[1:], hosts)
	for _, h := range machines[0] {
		if hosts[h] {
			hosts[h] = false
			best = max(best, 1+most(machines[1:], hosts))
			hosts[h] = true
		}
	}
	return best
}

// A host is reserved for the control plane exactly if fewer of its machines would get one without it,
// whatever they ask for.
func TestHostsAreReservedForTheControlPlane(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		all, free := []string{"a", "b", "c", "d", "e"}, map[string]bool{}
		some := func() []string {
			return slices.DeleteFunc(slices.Clone(all), func(string) bool { return random.IntN(2) == 0 })
		}
		var hosts []*infrav1.Host
		for _, name := range all {
			free[name] = random.IntN(4) > 0
			hosts = append(hosts, aHost(name, func(h *infrav1.Host) {
				if !free[name] {
					h.Spec.Claim = &infrav1.HostClaim{}
				}
			}))
		}
		var machines [][]string
		own := some()
		request := inZones(own...)
		for range random.IntN(5) {
			machines = append(machines, append(some(), "x"))
			request.Ahead = append(request.Ahead, inZones(machines[len(machines)-1]...))
		}
		if len(own) == 0 {
			continue
		}
		requirements, err := placement.Parse(request)
		if err != nil {
			t.Fatal(err)
		}
		result := placement.Of(hosts...).Rank(requirements)
		before, want, reserved := most(machines, free), map[string]bool{}, 0
		for _, name := range own {
			if free[name] {
				free[name] = false
				want[name] = most(machines, free) == before
				free[name] = true
				if !want[name] {
					reserved++
				}
			}
		}
		got := map[string]bool{}
		for _, fit := range result.Ranked {
			got[fit.Host.Name] = true
		}
		for _, rejected := range result.Rejected {
			if strings.Contains(rejected.Reason, fmt.Sprintf("reserved for the control plane, which needs %d more", len(machines))) {
				got[rejected.Host.Name] = false
			}
		}
		if !maps.Equal(got, want) || result.Reserved != reserved {
			t.Fatalf("seed %d: hosts %v, control plane %v, worker %v: %v, %d reserved, want %v, %d reserved", seed, free, machines, own, got, result.Reserved, want, reserved)
		}
	}
}
