package view

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/doctor"
	hosts "github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/runs"
	"github.com/slipway-dev/slipway/internal/status"
)

// Bar is machines or hosts by their roles, as a row of parts.
type Bar struct {
	// Total is what the whole bar stands for; at least 1, so that it has a width.
	Total int
	Parts []Part
	// Text is what it shows, such as 3/4.
	Text string
}

// Part is a number of machines or hosts of one role.
type Part struct {
	Role status.Role
	// At is how many come before.
	At, Count int
}

// barOrder are the roles from left to right.
var barOrder = []status.Role{status.OK, status.Work, status.Wait, status.Bad, status.Off, status.Free}

func barOf(total int, count map[status.Role]int, text string) Bar {
	bar, at := Bar{Total: max(1, total), Text: text}, 0
	if total <= 0 {
		return bar
	}
	for _, role := range barOrder {
		// A machine that replaces another one is beyond the desired number.
		if n := min(count[role], bar.Total-at); n > 0 {
			bar.Parts, at = append(bar.Parts, Part{role, at, n}), at+n
		}
	}
	return bar
}

// replicaBar has the ready machines, and of the others what is known.
func replicaBar(replicas status.Replicas, others map[status.Role]int) Bar {
	count := map[status.Role]int{status.OK: int(replicas.Ready)}
	for role, n := range others {
		if role != status.OK {
			count[role] = n
		}
	}
	return barOf(int(replicas.Desired), count, fmt.Sprintf("%d/%d", replicas.Ready, replicas.Desired))
}

// Trouble is a finding of doctor, as what somebody must act on or decide.
type Trouble struct {
	status.State
	Object doctor.Object
	// Page of the object; empty for one without.
	Page string
	// Cluster that suffers, with its namespace that of the object; empty for none or several.
	Cluster string
	// Means says what the failure is and does, and Remedy what ends it in general.
	Means, Remedy string
	// Buttons lead to what can be done about it.
	Buttons []Link
	// Others are objects with the same trouble, folded into this one.
	Others []Link
}

// Link leads to the page of an object; Page is empty for one without.
type Link struct{ Name, Page string }

// folded is from how many troubles of one check on they are folded into the first.
const folded = 4

// TroublesOf are findings, those first on which somebody must act. Many of one check are one.
func TroublesOf(findings []doctor.Finding, o *doctor.Snapshot) (troubles, notes []Trouble) {
	count := map[string]int{}
	for i := range findings {
		count[findings[i].Check]++
	}
	first := map[string]int{}
	states, order := status.Ranked(findings)
	for i, f := range order {
		t := Trouble{State: states[i], Object: f.Object, Page: PageOf(f.Object.Kind, f.Object.Namespace, f.Object.Name, f.Cluster), Cluster: f.Cluster, Remedy: f.Remedy}
		if !t.Attention() {
			notes = append(notes, t)
			continue
		}
		if at, ok := first[f.Check]; ok && count[f.Check] >= folded && troubles[at].Role == t.Role {
			troubles[at].Others = append(troubles[at].Others, Link{t.Object.Name, t.Page})
			continue
		}
		t.Means, t.Buttons = means(f.Check), buttonsOf(f, o)
		first[f.Check] = len(troubles)
		troubles = append(troubles, t)
	}
	return troubles, notes
}

// buttonsOf are the forms that end what was found.
func buttonsOf(f *doctor.Finding, o *doctor.Snapshot) []Link {
	var buttons []Link
	switch f.Object.Kind {
	case "LifecycleRun":
		i := slices.IndexFunc(o.LifecycleRuns, func(r lifecyclev1.LifecycleRun) bool {
			return r.Namespace == f.Object.Namespace && r.Name == f.Object.Name
		})
		cluster := o.Cluster(f.Object.Namespace, f.Cluster)
		if i < 0 || cluster == nil {
			return nil
		}
		run := RunOf(f.Object.Namespace, f.Cluster, runs.RunOf(&o.LifecycleRuns[i], cluster, o.Now))
		for _, c := range run.Choices {
			buttons = append(buttons, Link{string(c.Decision) + " " + c.Step + "…", c.Page})
		}
	case "Host":
		page := PageOf("Host", f.Object.Namespace, f.Object.Name, "")
		switch h := o.Host(f.Object.Namespace, f.Object.Name); {
		case h == nil:
		case !hosts.Approved(h):
			buttons = append(buttons, Link{"Approve…", page + "/approve"})
			if h.Spec.Approval == infrav1.HostApprovalPending {
				buttons = append(buttons, Link{"Deny…", page + "/do/deny"})
			}
		case hosts.StateOf(h).Quarantined():
			buttons = append(buttons, Link{"Clear quarantine…", page + "/do/clear-quarantine"})
		}
	case "HostMachine":
		if m := o.HostMachine(f.Object.Namespace, f.Object.Name); m != nil && o.Host(m.Namespace, m.Status.HostRef.Name) != nil {
			buttons = append(buttons, Link{"Replace machine…", PageOf("Host", m.Namespace, m.Status.HostRef.Name, "") + "/do/replace"})
		}
	case "Cluster":
		if c := o.Cluster(f.Object.Namespace, f.Object.Name); c != nil && ptr.Deref(c.Spec.Paused, false) {
			buttons = append(buttons, Link{"Resume…", PageOf("Cluster", c.Namespace, c.Name, "") + "/do/resume"})
		}
	}
	return buttons
}

func means(check string) string {
	all := doctor.Checks()
	if i := slices.IndexFunc(all, func(c doctor.Check) bool { return c.Name == check }); i >= 0 {
		return all[i].Means
	}
	return ""
}

// PageOf is where an object is shown: a machine on the page of its cluster. Empty for what has none.
func PageOf(kind, namespace, name, cluster string) string {
	folder, ok := map[string]string{"Host": "hosts", "Cluster": "clusters", "HostMachinePool": "pools", "LifecycleRun": "runs"}[kind]
	switch {
	case ok:
		return "/" + folder + "/" + namespace + "/" + name
	case cluster != "":
		return "/clusters/" + namespace + "/" + cluster
	}
	return ""
}
