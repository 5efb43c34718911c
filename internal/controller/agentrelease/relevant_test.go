package agentrelease

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Of what changes at a host, only that wakes the reconciler which a plan depends on.
func TestRelevant(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*infrav1.Host)
		want   bool
	}{
		"nothing": {func(*infrav1.Host) {}, false},
		"a report of the host": {func(h *infrav1.Host) {
			h.Status.BootID, h.Status.Inventory.KernelVersion, h.Status.Inventory.KubernetesVersions = "b", "6.1", []string{"v1.36.3"}
		}, false},
		"a step of its operation": {func(h *infrav1.Host) { h.Status.ObservedOperation = &infrav1.ObservedOperation{Step: "join"} }, false},
		"a label":                 {func(h *infrav1.Host) { h.Labels = map[string]string{"rack": "a"} }, false},
		"the label of a manager":  {func(h *infrav1.Host) { h.Labels = map[string]string{clusterv1.WatchLabel: "a"} }, true},
		"its agent":               {func(h *infrav1.Host) { h.Status.Inventory.AgentVersion = "v1.0.0" }, true},
		"its agent is away": {func(h *infrav1.Host) {
			h.Status.Conditions = []metav1.Condition{{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue}}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := &infrav1.Host{}, &infrav1.Host{}
			tc.change(after)
			if got := relevant().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
				t.Errorf("passes: %t, want %t", got, tc.want)
			}
		})
	}
	if !relevant().Create(event.CreateEvent{}) || !relevant().Delete(event.DeleteEvent{}) {
		t.Error("a host that comes or goes does not pass")
	}
}
