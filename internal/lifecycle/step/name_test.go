package step

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

func TestNamesOfStepsAreLabelsAndDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, run := range []string{"a", strings.Repeat("r", 62), strings.Repeat("r", 63), strings.Repeat("r", 63) + "x"} {
		for attempt := range int32(3) {
			for _, suffix := range []string{"", "0", "1"} {
				r := &lifecyclev1.LifecycleRun{ObjectMeta: metav1.ObjectMeta{Name: run}}
				name := Name(r, lifecyclev1.StepProgress{Name: "conformance", Attempt: attempt}, suffix)
				if errs := validation.IsDNS1123Label(name); errs != nil {
					t.Errorf("%q: %v", name, errs)
				}
				if other, taken := seen[name]; taken {
					t.Errorf("%q is the name for %s and %s", name, other, run)
				}
				seen[name] = run
			}
		}
	}
}
