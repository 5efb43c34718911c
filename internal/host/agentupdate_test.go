package host_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

func TestAgentUpdated(t *testing.T) {
	const running, release, digest = "v0.9.0", "v0.9.1", "sha256:d"
	report := func(state infrav1.HostAgentUpdateState, message string) *infrav1.HostAgentUpdate {
		return &infrav1.HostAgentUpdate{Version: release, ReleaseDigest: digest, State: state, Message: message}
	}
	ofAnother := report(infrav1.HostAgentUpdateFailed, "")
	ofAnother.ReleaseDigest = "sha256:other"
	for name, tc := range map[string]struct {
		version string
		report  *infrav1.HostAgentUpdate
		reason  string
		says    string
	}{
		"not begun":                {running, nil, infrav1.HostAgentUpdatingReason, "has not begun. If that lasts, see journalctl"},
		"fetches":                  {running, report(infrav1.HostAgentUpdateFetching, "disk full"), infrav1.HostAgentUpdatingReason, "The agent fetches v0.9.1: disk full"},
		"tries":                    {running, report(infrav1.HostAgentUpdateTrying, ""), infrav1.HostAgentUpdatingReason, "The agent tries v0.9.1"},
		"tries, and the new tells": {release, report(infrav1.HostAgentUpdateTrying, ""), infrav1.HostAgentUpdatingReason, "The agent tries v0.9.1"},
		"failed":                   {running, report(infrav1.HostAgentUpdateFailed, "no word"), infrav1.HostAgentUpdateFailedReason, "tried v0.9.1 and went back to v0.9.0: no word. See journalctl -u slipway-agent on the host, then load a mended release by `slipway bundle load`"},
		"another bundle failed":    {running, ofAnother, infrav1.HostAgentUpdatingReason, "has not begun"},
		"failed, updated by hand":  {release, report(infrav1.HostAgentUpdateFailed, ""), infrav1.HostAgentUpdatedReason, ""},
		"updated":                  {release, nil, infrav1.HostAgentUpdatedReason, ""},
		"newer":                    {"v0.10.0", nil, infrav1.HostAgentUpdatedReason, ""},
		"a candidate of it":        {"v0.9.1-rc.1", nil, infrav1.HostAgentUpdatingReason, ""},
		"no version":               {"today", nil, infrav1.HostAgentUpdatingReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := free()
			h.Generation = 7
			h.Spec.Agent = &infrav1.HostAgentSpec{Version: release, ReleaseDigest: digest}
			h.Status.Inventory.AgentVersion, h.Status.AgentUpdate = tc.version, tc.report
			list := host.Conditions(h, host.Facts{Connection: host.Connection{Connected: true}})
			c := meta.FindStatusCondition(list, infrav1.AgentUpdatedCondition)
			if c == nil || c.Reason != tc.reason || (c.Status == metav1.ConditionTrue) != (tc.reason == infrav1.HostAgentUpdatedReason) || c.ObservedGeneration != 7 || !strings.Contains(c.Message, tc.says) {
				t.Errorf("condition %+v, want %s: %s", c, tc.reason, tc.says)
			}
			// Neither who claims the host nor who watches it minds.
			for _, other := range []string{infrav1.AvailableCondition, clusterv1.ReadyCondition} {
				if !meta.IsStatusConditionTrue(list, other) {
					t.Errorf("%s = %+v", other, meta.FindStatusCondition(list, other))
				}
			}
		})
	}
	if c := meta.FindStatusCondition(host.Conditions(free(), host.Facts{}), infrav1.AgentUpdatedCondition); c != nil {
		t.Errorf("a host that nobody asked has %+v", c)
	}
}

func TestVersioned(t *testing.T) {
	for v, want := range map[string]bool{"v0.9.1": true, "v0.0.9": true, "v0.9.1-rc.1": true, "v0.0.0-dev": false, "0.9.1": false, "v0.9": false, "(devel)": false, "": false} {
		if got := host.Versioned(v) != nil; got != want {
			t.Errorf("%q can be compared: %t", v, got)
		}
	}
}

// An agent that updates itself is brought up to date by its release.
func TestTooOldAgent(t *testing.T) {
	for management, want := range map[infrav1.HostSoftwareManagement]string{
		infrav1.HostSoftwareManaged:  "from v0.8 on. The agent updates itself once the bundle of slipway-agent v0.9.1 is loaded by `slipway bundle load`",
		infrav1.HostSoftwareProvided: "from v0.8 on. Upgrade slipway-agent on the host",
		"":                           "from v0.8 on. Upgrade slipway-agent on the host",
	} {
		h := free()
		h.Status.Inventory.AgentVersion, h.Status.Software.AgentManagement = "v0.7.0", management
		c := meta.FindStatusCondition(host.Conditions(h, host.Facts{ManagerVersion: "v0.9.1"}), infrav1.AgentSupportedCondition)
		if c.Reason != infrav1.HostAgentTooOldReason || !strings.HasSuffix(c.Message, want) {
			t.Errorf("%q: %+v, want %q", management, c, want)
		}
	}
}
