package hooks

import (
	"strings"
	"testing"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// Runs of these names exist in management clusters: a name that changes makes a second run, which
// does all steps again.
func TestNamesOfRunsStayAsTheyAre(t *testing.T) {
	upgrade := lifecyclev1.RunRequest{FromKubernetesVersion: "v1.35.4", ToKubernetesVersion: "v1.36.3"}
	for want, c := range map[string]call{
		"edge-before-cluster-upgrade-b575ed88-1":               {cluster: "edge", policy: "upgrades", hook: lifecyclev1.BeforeClusterUpgrade, request: upgrade},
		"ccccccccccccccccccc-before-cluster-delete-862e925d-1": {cluster: strings.Repeat("c", 63), policy: "gate", hook: lifecyclev1.BeforeClusterDelete},
		"a-b-after-control-plane-initialized-d7230610-1":       {cluster: "a.b", policy: "init", hook: lifecyclev1.AfterControlPlaneInitialized},
	} {
		if got := c.runName(1); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
