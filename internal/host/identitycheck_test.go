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

func identified(namespace, name, hostID, machineID string) infrav1.Host {
	h := free()
	h.Namespace, h.Name, h.Spec.HostID, h.Status.Inventory.MachineID = namespace, name, hostID, machineID
	return *h
}

func assigned(h infrav1.Host, namespace string) infrav1.Host {
	h.Spec.AssignedNamespace = namespace
	return h
}

// A machine that goes from one namespace to another has a Host in both for a while.
func TestSuccessorIsNoTwin(t *testing.T) {
	here, there := identified("ns", "b", "key-1", "machine-1"), identified("other", "b", "key-1", "machine-1")
	for name, tc := range map[string]struct {
		here, there infrav1.Host
		twins       bool
	}{
		"assigned there":                    {assigned(here, "other"), there, false},
		"assigned elsewhere":                {assigned(here, "third"), there, true},
		"to its own namespace":              {assigned(here, "ns"), there, true},
		"another name there":                {assigned(here, "other"), identified("other", "c", "key-1", ""), true},
		"a clone in the namespace it is in": {assigned(here, "other"), identified("ns", "c", "key-1", ""), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := host.TwinOf(&tc.here, []infrav1.Host{tc.there}); (got != nil) != tc.twins {
				t.Errorf("the twin of the one that goes is %+v", got)
			}
			if got := host.TwinOf(&tc.there, []infrav1.Host{tc.here}); (got != nil) != tc.twins {
				t.Errorf("the twin of the one that is gone to is %+v", got)
			}
		})
	}
}

func TestTwinOf(t *testing.T) {
	h := identified("ns", "b", "key-1", "machine-1")
	for name, tc := range map[string]struct {
		other infrav1.Host
		want  *host.Twin
	}{
		"itself":                        {h, nil},
		"stranger":                      {identified("ns", "a", "key-2", "machine-2"), nil},
		"nothing known":                 {identified("ns", "a", "", ""), nil},
		"same key":                      {identified("ns", "a", "key-1", "machine-2"), &host.Twin{Namespace: "ns", Name: "a", Shared: "key"}},
		"same machine-id":               {identified("ns", "a", "key-2", "machine-1"), &host.Twin{Namespace: "ns", Name: "a", Shared: "machine-id"}},
		"key in other namespace":        {identified("other", "b", "key-1", "machine-2"), &host.Twin{Shared: "key"}},
		"machine-id in other namespace": {identified("other", "b", "key-2", "machine-1"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := host.TwinOf(&h, []infrav1.Host{tc.other})
			if (got == nil) != (tc.want == nil) || (got != nil && *got != *tc.want) {
				t.Errorf("twin = %+v, want %+v", got, tc.want)
			}
		})
	}
	far, near, later := identified("a-first", "a", "key-1", "machine-1"), identified("ns", "c", "key-2", "machine-1"), identified("ns", "d", "key-1", "machine-1")
	for _, order := range [][]infrav1.Host{{far, near, later}, {later, near, far}, {near, far, later}} {
		if got := host.TwinOf(&h, order); got == nil || *got != (host.Twin{Namespace: "ns", Name: "c", Shared: "machine-id"}) {
			t.Errorf("twin = %+v, want the first by name of its own namespace", got)
		}
	}
	unknown := identified("ns", "b", "", "")
	if got := host.TwinOf(&unknown, []infrav1.Host{identified("ns", "a", "", "")}); got != nil {
		t.Errorf("hosts of which nothing is known count as twins: %+v", got)
	}
}

// A clone is not claimable; a claim it has goes on.
func TestTwinIsRefused(t *testing.T) {
	facts := host.Facts{Connection: host.Connection{Connected: true}, Twin: &host.Twin{Namespace: "ns", Name: "a", Shared: "key"}}
	list := host.Conditions(free(), facts)
	for _, conditionType := range []string{infrav1.AvailableCondition, clusterv1.ReadyCondition} {
		c := meta.FindStatusCondition(list, conditionType)
		if c.Status != metav1.ConditionFalse || c.Reason != infrav1.HostDuplicateIdentityReason || !strings.Contains(c.Message, "Host ns/a has the same key") {
			t.Errorf("%s = %+v", conditionType, c)
		}
	}
	list = host.Conditions(claimed(infrav1.HostDesiredBootstrapped, infrav1.OperationSucceeded), facts)
	if !meta.IsStatusConditionTrue(list, clusterv1.ReadyCondition) || !meta.IsStatusConditionTrue(list, infrav1.DuplicateIdentityCondition) {
		t.Errorf("conditions of a claimed clone = %+v", list)
	}
	// The refusal ends with its cause, whatever the last conditions were.
	mended := free()
	mended.Status.Conditions = host.Conditions(free(), facts)
	if list := host.Conditions(mended, host.Facts{Connection: facts.Connection}); !meta.IsStatusConditionTrue(list, infrav1.AvailableCondition) {
		t.Errorf("conditions of a host without twin = %+v", list)
	}
}

func TestAgentSupported(t *testing.T) {
	for name, tc := range map[string]struct {
		agent, manager string
		reason         string
	}{
		"same":             {"v0.4.0", "v0.4.2", "Supported"},
		"one minor older":  {"v0.3.9", "v0.4.0", "Supported"},
		"two minors older": {"v0.2.0", "v0.4.0", infrav1.HostAgentTooOldReason},
		"newer":            {"v0.5.0", "v0.4.9", infrav1.HostAgentTooNewReason},
		"newer patch":      {"v0.4.3", "v0.4.0", "Supported"},
		"next major":       {"v1.0.0", "v0.9.0", infrav1.HostAgentTooNewReason},
		"first of a major": {"v0.9.0", "v1.0.0", infrav1.HostAgentTooOldReason},
		"pre-release":      {"v0.4.0-3-gabcdef", "v0.4.0", "Supported"},
		"development":      {"v0.0.0-dev", "v0.4.0", "Unknown"},
		"not reported":     {"", "v0.4.0", "Unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			h := free()
			h.Status.Inventory.AgentVersion = tc.agent
			c := meta.FindStatusCondition(host.Conditions(h, host.Facts{ManagerVersion: tc.manager}), infrav1.AgentSupportedCondition)
			refused := tc.reason == infrav1.HostAgentTooNewReason || tc.reason == infrav1.HostAgentTooOldReason
			if c.Reason != tc.reason || (c.Status == metav1.ConditionFalse) != refused {
				t.Errorf("AgentSupported = %+v, want %s", c, tc.reason)
			}
			if refused && !strings.Contains(c.Message, "Upgrade ") {
				t.Errorf("no remedy: %s", c.Message)
			}
		})
	}
}

func TestAdoptionIsRefused(t *testing.T) {
	h := &infrav1.Host{Status: infrav1.HostStatus{BootID: "b", Residue: []string{"a", "b", "c", "d", "e", "f"}}}
	state := host.StateOf(h)
	if state.Phase != infrav1.HostPhaseQuarantined || state.Reason != infrav1.HostAdoptionRefusedReason || !strings.Contains(state.Message, "(a, b, c, d and 2 more)") || !strings.Contains(state.Message, "Remove it, by `slipway host reset") {
		t.Errorf("state = %+v", state)
	}
}
