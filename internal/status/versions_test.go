package status

import (
	"fmt"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Whoever looks at a host sees whose Kubernetes it has.
func TestOriginOfVersions(t *testing.T) {
	h := &infrav1.Host{}
	h.Status.Inventory.KubernetesVersions = []string{"v1.34.9", "v1.35.4", "v1.36.3", "v1.36.5"}
	h.Status.Software.Releases = []infrav1.HostSoftwareRelease{
		{Version: "v1.36.3", Origin: infrav1.SoftwareOriginOwnBuild}, {Version: "v1.36.5", Origin: infrav1.SoftwareOriginUpstream}, {Version: "v1.35.4"},
	}
	var versions []Version
	for _, v := range h.Status.Inventory.KubernetesVersions {
		versions = append(versions, Version{Version: v, Origin: originOf(h, v)})
	}
	if got, want := fmt.Sprint(versions), "[v1.34.9 (Packages) v1.35.4 (Unknown) v1.36.3 (OwnBuild) v1.36.5 (Upstream)]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
