package step

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// Objects under these names exist in management clusters: a name that changes makes a second run,
// Job or archive beside the first.
func TestNamesStayAsTheyAre(t *testing.T) {
	long := strings.Repeat("r", 70)
	name := func(run, suffix string) string {
		return Name(&lifecyclev1.LifecycleRun{ObjectMeta: metav1.ObjectMeta{Name: run}}, lifecyclev1.StepProgress{Name: "smoke", Attempt: 2}, suffix)
	}
	labels := Labels(&lifecyclev1.LifecycleRun{
		ObjectMeta: metav1.ObjectMeta{Name: long}, Spec: lifecyclev1.LifecycleRunSpec{ClusterName: "prod", PolicyName: long + "p", Hook: lifecyclev1.BeforeClusterDelete},
	}, "smoke")
	shortened := strings.Repeat("r", 52) + "-"
	for _, c := range []struct{ got, want string }{
		{name("edge", ""), "edge-smoke-r2"},
		{name("edge", "0"), "edge-smoke-r2-0"},
		{name(long, ""), shortened + "b26be55547"},
		{name(long, "0"), shortened + "b15fc47510"},
		{labels[lifecyclev1.RunLabel], shortened + "8e08f5fcab"},
		{labels[lifecyclev1.PolicyLabel], shortened + "af9f20e0ae"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
