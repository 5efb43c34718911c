package placement_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
)

// A host counts for one machine, and machines give way where they can have another one.
func TestTaken(t *testing.T) {
	candidates := []placement.Candidate{candidate("1"), candidate("2"), candidate("3")}
	wants := func(hosts ...string) *placement.Chooser {
		t.Helper()
		zones := metav1.LabelSelectorRequirement{Key: "zone", Operator: metav1.LabelSelectorOpIn}
		for _, h := range hosts {
			zones.Values = append(zones.Values, "z-"+h)
		}
		c, err := placement.NewChooser(placement.Request{Placement: infrav1.Placement{HostSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{zones}}}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, c := range map[string]struct {
		waiting []*placement.Chooser
		want    int
	}{
		"nobody waits":             {nil, 0},
		"one of many":              {[]*placement.Chooser{wants("1", "2", "3")}, 1},
		"for no host":              {[]*placement.Chooser{wants("4")}, 0},
		"for one host":             {[]*placement.Chooser{wants("1"), wants("1")}, 1},
		"the first gives way":      {[]*placement.Chooser{wants("1", "2"), wants("1")}, 2},
		"the first two give way":   {[]*placement.Chooser{wants("1", "2"), wants("2", "3"), wants("1", "2")}, 3},
		"more machines than hosts": {[]*placement.Chooser{wants("1", "2", "3"), wants("1", "2"), wants("2", "3"), wants("3")}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if got := placement.Taken(c.waiting, candidates); got != c.want {
				t.Errorf("%d hosts are taken, want %d", got, c.want)
			}
		})
	}
}
