package judge

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var limits = Limits{NodeAbsent: time.Minute, NodeNotReady: 5 * time.Minute, Lag: 10 * time.Second}

// names of the rules, as they are told.
const (
	oneMachine  = "one machine at a time names a host"
	oneHost     = "one host at a time carries a claim"
	claimEnds   = "a claim ends before the next begins"
	reset       = "a reset is proved between two claims"
	neverFall   = "generations and terms never fall"
	oneBinding  = "one term of an address belongs to one host"
	leavers     = "nothing that is being deleted claims a host"
	nodeOutlive = "no Node goes while its HostMachine lives"
	list        = "a providerID leaves the list after its HostMachine"
	ready       = "a machine that is Ready has a Node that is"
)

// Each rule is seen to notice what it is for, and to let pass what looks like it.
func TestRules(t *testing.T) {
	t.Parallel()
	a, b := hostMachine("a", "host-1"), hostMachine("b", "host-1")
	held := func(term int32) *infrav1.Host {
		h := claimedBy("host-1", 1, "a")
		h.Status.VirtualIP = &infrav1.VirtualIPStatus{Address: "10.88.0.200", State: infrav1.VirtualIPHeld, Term: term}
		return h
	}
	standby := claimedBy("host-1", 1, "a")
	standby.Status.VirtualIP = &infrav1.VirtualIPStatus{Address: "10.88.0.200", State: infrav1.VirtualIPStandby}
	unproved := func(generation int64, change func(*infrav1.Host)) *infrav1.Host {
		h := claimedBy("host-1", generation, "b")
		h.Status.CleanProof = nil
		change(h)
		return h
	}
	// proof is what the agent of a free host shows.
	proof := func(generation, shown int64) *infrav1.Host {
		h := freeHost("host-1", generation)
		h.Status.CleanProof.ClaimGeneration = shown
		return h
	}
	// anew is a Host that was deleted and enrolled again; its agent shows a proof.
	anew := func(generation, shown int64) *infrav1.Host {
		h := proof(generation, shown)
		h.UID = "another"
		return h
	}
	for _, c := range []struct {
		name    string
		history *planted
		want    []string
	}{
		{"a life of two machines, one after the other", new(planted).write(
			cluster(false), freeHost("host-1", 0), claimedBy("host-1", 1, "a"), a, machine(a), pool(a), node(a, corev1.ConditionTrue)).
			write(deleted(hostMachine("a", "host-1"), began.Add(8*time.Second)), freeHost("host-1", 1)).remove(a).write(pool()).remove(node(a, corev1.ConditionTrue)).
			remove(machine(a)).write(claimedBy("host-1", 2, "b"), b, machine(b), pool(b), node(b, corev1.ConditionTrue)).wait(time.Hour), nil},

		{"a claim while the former HostMachine is there", new(planted).write(
			freeHost("host-1", 0), claimedBy("host-1", 1, "a"), a, freeHost("host-1", 1), claimedBy("host-1", 2, "b")), []string{oneMachine}},
		{"a claim while the former Machine is there", new(planted).write(
			freeHost("host-1", 0), claimedBy("host-1", 1, "a"), machine(a), freeHost("host-1", 1), claimedBy("host-1", 2, "b")), []string{oneMachine}},
		{"two HostMachines name a host", new(planted).write(a, b), []string{oneMachine}},
		{"two HostMachines name a host, which is seen the other way round", &planted{entries: []Entry{
			{Seen: began, Verb: Deleted, Revision: 3, Object: stored(a)},
			{Seen: began, Verb: Written, Revision: 2, Object: stored(b)},
			{Seen: began, Verb: Written, Revision: 1, Object: stored(a)},
		}}, []string{oneMachine}},

		{"two hosts with one claim", new(planted).write(freeHost("host-1", 0), claimedBy("host-1", 1, "a"), freeHost("host-2", 0), claimedBy("host-2", 1, "a")), []string{oneHost}},

		{"a claim that passes on", new(planted).write(claimedBy("host-1", 1, "a"), claimedBy("host-1", 2, "b")), []string{claimEnds}},
		{"a claim that may have ended unseen", new(planted).write(claimedBy("host-1", 1, "a")).unseen(claimedBy("host-1", 2, "b")), nil},

		{"a claim without a reset", new(planted).write(claimedBy("host-1", 1, "a"), freeHost("host-1", 1), unproved(2, func(*infrav1.Host) {})), []string{reset}},
		{"a claim with the proof of an earlier one", new(planted).write(freeHost("host-1", 0), unproved(2, func(h *infrav1.Host) { h.Status.CleanProof = &infrav1.CleanProof{} })), []string{reset}},
		{"a claim without a reset, unseen", new(planted).write(claimedBy("host-1", 1, "a")).unseen(unproved(2, func(*infrav1.Host) {})), []string{reset}},
		{"a claim of a host without any proof", new(planted).write(freeHost("host-1", 0), unproved(1, func(*infrav1.Host) {})), []string{reset}},
		{"a claim upon the word of an operator", new(planted).write(freeHost("host-1", 1), unproved(2, func(h *infrav1.Host) { h.Spec.ClearedGeneration = ptr.To(int64(1)) })), nil},
		{"a claim that adopts a node", new(planted).write(freeHost("host-1", 0), unproved(1, func(h *infrav1.Host) { h.Spec.Claim.Adopt = ptr.To(true) })), nil},

		{"a generation that falls", new(planted).write(freeHost("host-1", 2), freeHost("host-1", 1)), []string{neverFall, neverFall}},
		{"a generation of two claims", new(planted).write(claimedBy("host-1", 1, "a"), freeHost("host-1", 1), claimedBy("host-1", 1, "b")), []string{neverFall, neverFall}},
		{"a term that falls", new(planted).write(held(2), held(1)), []string{neverFall}},
		{"a term that nobody knows after a boot", new(planted).write(held(2), standby, held(2)), nil},
		{"a term that falls with a boot between", new(planted).write(held(2), standby, held(1)), []string{neverFall}},
		{"a Host that is enrolled anew", new(planted).write(freeHost("host-1", 3)).remove(freeHost("host-1", 3)).write(anew(0, 0)), nil},
		{"a Host that is enrolled anew, with the proof of the one before", new(planted).write(freeHost("host-1", 3)).remove(freeHost("host-1", 3)).
			write(anew(0, 3), anew(0, 0), anew(1, 0), anew(1, 1)), nil},
		{"a proof of the Host before, after one of its own", new(planted).write(freeHost("host-1", 3)).remove(freeHost("host-1", 3)).
			write(anew(0, 3), anew(0, 0), anew(0, 3)), []string{neverFall}},
		{"a proof that falls on a Host that was enrolled anew", new(planted).write(freeHost("host-1", 3)).remove(freeHost("host-1", 3)).
			write(anew(0, 3), anew(2, 2), anew(2, 1)), []string{neverFall}},
		{"a claim with the proof of the Host before", new(planted).write(freeHost("host-1", 3)).remove(freeHost("host-1", 3)).
			write(anew(0, 3), unproved(1, func(h *infrav1.Host) { h.UID, h.Status.CleanProof = "another", &infrav1.CleanProof{ClaimGeneration: 3} })), []string{reset}},
		{"a proof that falls, with none between", new(planted).write(freeHost("host-1", 2), unproved(3, func(h *infrav1.Host) { h.Spec.Claim = nil }), proof(3, 1)), []string{neverFall}},
		{"a proof of a generation that was not yet", new(planted).write(proof(0, 2)), []string{neverFall}},

		{"a Node that goes while its HostMachine lives", new(planted).write(cluster(false), a, node(a, corev1.ConditionTrue)).
			remove(node(a, corev1.ConditionTrue)).wait(20 * time.Second), []string{nodeOutlive}},
		{"a Node that goes before its HostMachine", new(planted).write(cluster(false), a, node(a, corev1.ConditionTrue)).
			remove(node(a, corev1.ConditionTrue)).write(deleted(hostMachine("a", "host-1"), began.Add(8*time.Second))).wait(20 * time.Second), []string{nodeOutlive}},
		{"a Node that goes with its HostMachine, seen first", new(planted).write(cluster(false), a, node(a, corev1.ConditionTrue)).
			remove(node(a, corev1.ConditionTrue)).write(deleted(hostMachine("a", "host-1"), began.Add(3*time.Second))).wait(20 * time.Second), nil},
		{"a Node that goes while nobody sees the plane", new(planted).write(cluster(false), a, node(a, corev1.ConditionTrue)).lose("").
			remove(node(a, corev1.ConditionTrue)).wait(20 * time.Second).remove(a).find("").wait(20 * time.Second), nil},

		{"an ID that leaves the list first", new(planted).write(a, pool(a), deleted(hostMachine("a", "host-1"), began), pool()), []string{list}},

		{"Ready without a Node", new(planted).write(cluster(false), node(hostMachine("x", "host-9"), corev1.ConditionTrue), a).wait(2 * time.Minute), []string{ready}},
		{"Ready with a Node that is not", new(planted).write(cluster(false), a, node(a, corev1.ConditionUnknown)).wait(6 * time.Minute), []string{ready}},
		{"Ready with a Node that is not, for a while", new(planted).write(cluster(false), a, node(a, corev1.ConditionUnknown)).wait(4 * time.Minute).
			write(node(a, corev1.ConditionTrue)).wait(time.Minute).write(node(a, corev1.ConditionFalse)).wait(4 * time.Minute), nil},
		{"Ready with a Node that is not, of a paused Cluster", new(planted).write(cluster(true), a, node(a, corev1.ConditionUnknown)).wait(6 * time.Minute), nil},
		{"Ready with a Node that is not, while nobody sees it", new(planted).write(cluster(false), a, node(a, corev1.ConditionUnknown)).wait(3 * time.Minute).
			lose("local").wait(time.Minute).find("local").wait(4 * time.Minute), nil},
		{"Ready with a Node that is not, while the plane is dead", new(planted).write(cluster(false), a, node(a, corev1.ConditionUnknown)).wait(3 * time.Minute).
			lose("").wait(time.Hour).find("").wait(4 * time.Minute), nil},

		{"two hosts in a term", new(planted).write(binds("host-1", "local", 3), binds("host-2", "local", 3)), []string{oneBinding}},
		{"two hosts without an election", new(planted).write(binds("host-1", "local", 0), binds("host-2", "local", 0)), []string{oneBinding}},
		{"one host after the other", new(planted).write(binds("host-1", "local", 3), binds("host-2", "local", 4), binds("host-1", "local", 5)), nil},
		{"a host that reports it again", new(planted).write(binds("host-1", "local", 3), binds("host-1", "local", 3)), nil},
		{"hosts of two clusters", new(planted).write(binds("host-1", "local", 3), binds("host-2", "second-1", 3)), nil},
		{"a host without a claim", new(planted).write(binds("host-1", "local", 3), func() *infrav1.Host {
			h := binds("host-2", "local", 3)
			h.Spec.Claim = nil
			return h
		}()), nil},
		{"a host and one in standby", new(planted).write(binds("host-1", "local", 3), func() *infrav1.Host {
			h := binds("host-2", "local", 3)
			h.Status.VirtualIP.State = infrav1.VirtualIPStandby
			return h
		}()), nil},

		{"a claim of a Cluster that is being deleted", new(planted).write(deleted(cluster(false), began), waiting("a")).wait(time.Minute).write(freeHost("host-1", 0), claimedBy("host-1", 1, "a")), []string{leavers}},
		{"a claim of a HostMachine that is being deleted", new(planted).write(cluster(false), deleted(waiting("a"), began)).wait(time.Minute).write(freeHost("host-1", 0), claimedBy("host-1", 1, "a")), []string{leavers}},
		{"a claim of a Machine that is being deleted", new(planted).write(cluster(false), waiting("a"), deleted(machine(waiting("a")), began)).wait(time.Minute).write(freeHost("host-1", 0), claimedBy("host-1", 1, "a")), []string{leavers}},
		{"a claim of a MachinePool that is being deleted", new(planted).write(cluster(false), waiting("a"), deleted(machinePool("pool"), began)).wait(time.Minute).write(freeHost("host-1", 0), claimedBy("host-1", 1, "a")), []string{leavers}},
		{"a claim of a MachineSet that is being deleted", new(planted).write(cluster(false), deployment(), deleted(set("ms", deployment()), began), waiting("a"), madeBy(machine(waiting("a")), set("ms", deployment()))).
			wait(time.Minute).write(freeHost("host-1", 0), claimedBy("host-1", 1, "a")), []string{leavers}},
		{"a claim of a MachineDeployment that is being deleted", new(planted).write(cluster(false), deleted(deployment(), began), set("ms", deployment()), waiting("a"), madeBy(machine(waiting("a")), set("ms", deployment()))).
			wait(time.Minute).write(freeHost("host-1", 0), claimedBy("host-1", 1, "a")), []string{leavers}},
		{"a claim beside the MachineSet before", new(planted).write(cluster(false), deployment(), deleted(set("old", deployment()), began), set("ms", deployment()), waiting("a"), madeBy(machine(waiting("a")), set("ms", deployment()))).
			wait(time.Minute).write(freeHost("host-1", 0), claimedBy("host-1", 1, "a")), nil},
		{"a claim of a Machine whose MachineSet nobody saw", new(planted).write(cluster(false), waiting("a"), madeBy(machine(waiting("a")), set("ms", deployment()))).
			wait(time.Minute).write(freeHost("host-1", 0), claimedBy("host-1", 1, "a")), nil},
		{"a claim of a MachineSet whose MachineDeployment nobody saw", new(planted).write(cluster(false), set("ms", deployment()), waiting("a"), madeBy(machine(waiting("a")), set("ms", deployment()))).
			wait(time.Minute).write(freeHost("host-1", 0), claimedBy("host-1", 1, "a")), nil},
		{"a claim of a MachineSet of nobody's", new(planted).write(cluster(false), setOfNobody("ms"), waiting("a"), madeBy(machine(waiting("a")), set("ms", deployment()))).
			wait(time.Minute).write(freeHost("host-1", 0), claimedBy("host-1", 1, "a")), nil},
		{"a claim of a control plane beside a MachineSet of its name", new(planted).write(cluster(false), deployment(), deleted(set("plane", deployment()), began), waiting("a"), ofControlPlane(machine(waiting("a")), "plane")).wait(time.Minute).write(freeHost("host-1", 0), claimedBy("host-1", 1, "a")), nil},
		{"a claim that crosses a deletion", new(planted).write(cluster(false), freeHost("host-1", 0), deleted(waiting("a"), began.Add(3*time.Second))).write(claimedBy("host-1", 1, "a")), nil},
		{"a claim of which nobody knows when it was made", new(planted).write(deleted(cluster(false), began), waiting("a"), freeHost("host-1", 0)).wait(time.Minute).unseen(claimedBy("host-1", 1, "a")), nil},
		{"a claim beside deletions of others", new(planted).write(cluster(false), waiting("a"), deleted(waiting("b"), began), deleted(machine(waiting("b")), began), deleted(machinePool("other"), began)).
			wait(time.Minute).write(freeHost("host-1", 0), claimedBy("host-1", 1, "a")), nil},
		{"a claim of before a deletion", new(planted).write(cluster(false), waiting("a"), freeHost("host-1", 0), claimedBy("host-1", 1, "a"), deleted(waiting("a"), began)).wait(time.Minute).write(claimedBy("host-1", 1, "a")), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			violations, err := History(c.history.entries, limits)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range violations {
				got = append(got, v.Rule)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("violated are %q, want %q: %v", got, c.want, violations)
			}
		})
	}
}

// The rules in the table above are all there are.
func TestEachRuleIsTried(t *testing.T) {
	t.Parallel()
	tried := []string{oneMachine, oneHost, claimEnds, reset, neverFall, oneBinding, leavers, nodeOutlive, list, ready}
	for i, r := range rules {
		if i >= len(tried) || tried[i] != r.name {
			t.Errorf("rule %q is not tried", r.name)
		}
	}
}
