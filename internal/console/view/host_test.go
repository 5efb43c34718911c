package view

import (
	"slices"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Who looks at a host sees whose Kubernetes it has, as far as a host bundle tells.
func TestVersionsOfAHostHaveTheirOrigin(t *testing.T) {
	h := &infrav1.Host{}
	h.Status.Inventory.KubernetesVersions = []string{"v1.35.8", "v1.36.5"}
	h.Status.Software.Releases = []infrav1.HostSoftwareRelease{{Version: "v1.36.5", Origin: infrav1.SoftwareOriginUpstream}}
	if facts := factsOf(h); !slices.Contains(facts, Fact{"Kubernetes versions", "v1.35.8, v1.36.5 (Upstream)"}) {
		t.Errorf("the page has %v", facts)
	}
}
