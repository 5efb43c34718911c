package hooks

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

func TestNamesOfRunsAreLabelsAndDiffer(t *testing.T) {
	seen := map[string]call{}
	for _, cluster := range []string{"c", strings.Repeat("c", 63), strings.Repeat("c-", 31) + "c", "a.b.c"} {
		for _, policy := range []string{"p", strings.Repeat("p", 253)} {
			for _, hook := range lifecyclev1.Hooks() {
				for _, version := range []string{"", "v1.36.3"} {
					for _, attempt := range []int32{1, 2, 1_000_000} {
						c := call{cluster: cluster, policy: policy, hook: hook, request: lifecyclev1.RunRequest{ToKubernetesVersion: version}}
						name := c.runName(attempt)
						if errs := validation.IsDNS1123Label(name); errs != nil || len(name) > maxRunName {
							t.Errorf("%q, %d characters: %v", name, len(name), errs)
						}
						if other, taken := seen[name]; taken {
							t.Errorf("%q is the name for %+v and %+v", name, c, other)
						}
						seen[name] = c
					}
				}
			}
		}
	}
	if got := (call{cluster: "prod", hook: lifecyclev1.BeforeClusterCreate}).runName(2); !strings.HasPrefix(got, "prod-before-cluster-create-") || !strings.HasSuffix(got, "-2") {
		t.Errorf("the name is %q", got)
	}
}
