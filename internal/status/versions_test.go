package status

import (
	"fmt"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/doctor"
)

// Whoever looks at a host sees whose Kubernetes it has.
func TestOriginOfVersions(t *testing.T) {
	h := &infrav1.Host{}
	h.Status.Inventory.KubernetesVersions = []string{"v1.34.9", "v1.35.4", "v1.36.3", "v1.36.5"}
	h.Status.Software.Releases = []infrav1.HostSoftwareRelease{
		{Version: "v1.36.3", Origin: infrav1.SoftwareOriginOwnBuild}, {Version: "v1.36.5", Origin: infrav1.SoftwareOriginUpstream}, {Version: "v1.35.4"},
	}
	h.Status.Inventory.Cgroups = infrav1.CgroupV1
	o := &doctor.Snapshot{}
	o.Hosts = []infrav1.Host{*h}
	shown := HostOf(h, Judge(o))
	if shown.Cgroups != "V1" {
		t.Errorf("cgroups %q", shown.Cgroups)
	}
	if got, want := fmt.Sprint(shown.Versions), "[v1.34.9 (Packages) v1.35.4 (Unknown) v1.36.3 (OwnBuild) v1.36.5 (Upstream)]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
