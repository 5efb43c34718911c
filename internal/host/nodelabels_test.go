package host_test

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// A Node has zone and region of its host, and of the host's labels those that are named: also what was
// reported and is not written yet, and nothing for what the host does not have.
func TestNodeLabels(t *testing.T) {
	h := server()
	h.Labels = map[string]string{"rack": "a", "disk": "", "owner": "team-1", corev1.LabelTopologyRegion: "eu", corev1.LabelTopologyZone: "other"}
	keys := []infrav1.HostLabelKey{"disk", prefix + "gpu-nvidia", prefix + "gpu-amd", "missing"}
	for name, c := range map[string]struct {
		domain string
		keys   []infrav1.HostLabelKey
		want   map[string]string
	}{
		"all":                 {"a", keys, map[string]string{"disk": "", prefix + "gpu-nvidia": "2", corev1.LabelTopologyZone: "a", corev1.LabelTopologyRegion: "eu"}},
		"no domain":           {"", nil, map[string]string{corev1.LabelTopologyRegion: "eu"}},
		"domain of any words": {"Row 7 / Rack 2", nil, map[string]string{corev1.LabelTopologyZone: "Row-7-Rack-2", corev1.LabelTopologyRegion: "eu"}},
	} {
		if got := host.NodeLabels(h, c.domain, c.keys); !maps.Equal(got, c.want) {
			t.Errorf("%s: labels are %v, want %v", name, got, c.want)
		}
	}
}
