package host_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// A word that the host is clean is taken, waits, or is refused with the reason: never lost.
func TestConfirmationThatAHostIsClean(t *testing.T) {
	quarantined := freed(infrav1.HostRecord{State: infrav1.HostRecordRemains, ClaimGeneration: ptr.To[int64](7)}, nil)
	for name, c := range map[string]struct {
		host *infrav1.Host
		word string
		want host.Confirmation
		why  string
	}{
		"quarantined":            {quarantined, "true", host.ConfirmationAccepted, ""},
		"for this claim":         {quarantined, "2", host.ConfirmationAccepted, ""},
		"for an earlier claim":   {quarantined, "1", host.ConfirmationRefused, "it is for claim generation 1"},
		"given twice":            {free(), "true", host.ConfirmationRefused, "is clean"},
		"before the first word":  {&infrav1.Host{}, "true", host.ConfirmationPending, ""},
		"while it is reset":      {claimed(infrav1.HostDesiredReset, infrav1.OperationRunning), "true", host.ConfirmationPending, ""},
		"while an order is open": {ordered(""), "true", host.ConfirmationPending, ""},
		"of a host that runs":    {claimed(infrav1.HostDesiredBootstrapped, infrav1.OperationSucceeded), "true", host.ConfirmationRefused, "it is Running"},
	} {
		t.Run(name, func(t *testing.T) {
			got, why := host.EvaluateConfirmation(c.host, c.word)
			if got != c.want || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("%v, %q; want %v, %q", got, why, c.want, c.why)
			}
		})
	}
	host.Clear(quarantined)
	if quarantined.Spec.ClaimGeneration != 7 || *quarantined.Spec.ClearedGeneration != 7 || host.NextGeneration(quarantined) != 8 {
		t.Errorf("the word is not for what the agent has on record: %+v", quarantined.Spec)
	}
}

func TestManualReset(t *testing.T) {
	machine := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	leaving := machine.DeepCopy()
	leaving.DeletionTimestamp = ptr.To(metav1.Now())
	runs := claimed(infrav1.HostDesiredBootstrapped, infrav1.OperationSucceeded)
	older := runs.DeepCopy()
	older.Status.Record = &infrav1.HostRecord{ClaimID: "other", ClaimGeneration: ptr.To(runs.Spec.ClaimGeneration), State: infrav1.HostRecordNode}
	for name, c := range map[string]struct {
		host       *infrav1.Host
		machine    *infrav1.HostMachine
		generation int64
		refused    string
	}{
		"former claim":                 {host: freed(infrav1.HostRecord{State: infrav1.HostRecordNode, ClaimGeneration: ptr.To[int64](7)}, nil), generation: 8},
		"remains of this Host":         {host: freed(infrav1.HostRecord{State: infrav1.HostRecordRemains, ClaimGeneration: ptr.To[int64](2)}, nil), generation: 2},
		"again":                        {host: ordered(infrav1.OperationFailed), generation: 2},
		"clean":                        {host: free(), refused: "clean and free"},
		"machine is gone":              {host: runs, generation: runs.Spec.ClaimGeneration},
		"machine is gone, other claim": {host: older, generation: runs.Spec.ClaimGeneration + 1},
		"machine is there":             {host: runs, machine: machine, refused: "has the host"},
		"machine leaves":               {host: claimed(infrav1.HostDesiredReset, infrav1.OperationFailed), machine: leaving, generation: runs.Spec.ClaimGeneration},
		"adopting":                     {host: adopting(infrav1.OperationRunning), refused: "adopts the node"},
	} {
		t.Run(name, func(t *testing.T) {
			h := c.host.DeepCopy()
			err := host.RequestManualReset(h, c.machine, "x")
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || !host.Releasing(h) || h.Spec.Desired.OperationID != "reset-x" || h.Spec.ClaimGeneration != c.generation {
				t.Errorf("%v, generation %d, %+v", err, h.Spec.ClaimGeneration, h.Spec.Desired)
			}
		})
	}
}

// What a failed reset left is named by the next Host, too, whichever way the record became another's.
func TestFormerResetIsNamed(t *testing.T) {
	for name, h := range map[string]*infrav1.Host{
		"former claim": freed(infrav1.HostRecord{State: infrav1.HostRecordRemains, ClaimGeneration: ptr.To[int64](7)}, nil),
		"lost":         freed(infrav1.HostRecord{State: infrav1.HostRecordRemains, Lost: "the journal is gone"}, nil),
		"no proof":     freed(infrav1.HostRecord{State: infrav1.HostRecordClean}, nil),
	} {
		h.Status.ObservedOperation = &infrav1.ObservedOperation{ID: "reset-former", Phase: infrav1.HostDesiredReset, State: infrav1.OperationFailed, Step: "reset: cgroup", Message: "listener 127.0.0.1:18999"}
		if s := host.StateOf(h); s.Phase != infrav1.HostPhaseQuarantined || !strings.Contains(s.Message, ". Its last reset failed. Step reset: cgroup failed: listener 127.0.0.1:18999. ") && !strings.Contains(s.Message, "? Its last reset failed. Step") {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestGivenBack(t *testing.T) {
	machine := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "ns"}}
	machine.Spec.ClaimID, machine.Spec.ProviderID = "former", "slipway://ns/h/former"
	node := freed(infrav1.HostRecord{State: infrav1.HostRecordNode, ClaimID: "former", ClaimGeneration: ptr.To[int64](7)}, nil)
	node.Name, node.Namespace = "h", "ns"
	for name, change := range map[string]func(*infrav1.Host, *infrav1.HostMachine){
		"":                   func(*infrav1.Host, *infrav1.HostMachine) {},
		"another claim":      func(_ *infrav1.Host, m *infrav1.HostMachine) { m.Spec.ClaimID = "x" },
		"another host":       func(_ *infrav1.Host, m *infrav1.HostMachine) { m.Spec.ProviderID = "slipway://ns/h2/former" },
		"no node":            func(h *infrav1.Host, _ *infrav1.HostMachine) { h.Status.Record.State = infrav1.HostRecordRemains },
		"machine leaves":     func(_ *infrav1.Host, m *infrav1.HostMachine) { m.DeletionTimestamp = ptr.To(metav1.Now()) },
		"claimed by another": func(h *infrav1.Host, _ *infrav1.HostMachine) { h.Spec.Claim = &infrav1.HostClaim{ClaimID: "x"} },
	} {
		t.Run(name, func(t *testing.T) {
			h, m := node.DeepCopy(), machine.DeepCopy()
			change(h, m)
			err := host.GiveBack(h, m, "c")
			if name != "" {
				if err == nil {
					t.Errorf("given back: %+v", h.Spec)
				}
				return
			}
			if err != nil || h.Spec.Claim.ClaimID != "former" || h.Spec.ClaimGeneration != 7 || host.StateOf(h).Phase != infrav1.HostPhaseRunning {
				t.Errorf("%v: %+v, %+v", err, h.Spec, host.StateOf(h))
			}
			if err := host.GiveBack(h, m, "c"); err != nil {
				t.Errorf("given twice: %v", err)
			}
		})
	}
}

// What the agent does not know, or does not accept, is a condition with the next command.
func TestConditionsOfTheAgentsKnowledge(t *testing.T) {
	h := claimed(infrav1.HostDesiredBootstrapped, infrav1.OperationSucceeded)
	h.Name, h.Namespace = "h", "ns"
	find := func(condition string) *metav1.Condition {
		return meta.FindStatusCondition(host.Conditions(h, host.Facts{}), condition)
	}
	if find(infrav1.RecordKeptCondition) != nil || find(infrav1.ConfigurationAcceptedCondition) != nil {
		t.Error("there is nothing to tell")
	}
	h.Status.Record = &infrav1.HostRecord{State: infrav1.HostRecordNode, ClaimID: "c", Lost: "the journal is gone"}
	h.Status.ConfigurationErrors = []string{"entry 2 of clean.ignore", "b", "c", "d", "e"}
	if c := find(infrav1.RecordKeptCondition); c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "the journal is gone") || !strings.Contains(c.Message, "`slipway host clear-quarantine h -n ns`") {
		t.Errorf("%+v", c)
	}
	if c := find(infrav1.ConfigurationAcceptedCondition); c == nil || !strings.Contains(c.Message, "entry 2 of clean.ignore; b; c; d. Correct") {
		t.Errorf("%+v", c)
	}
}
