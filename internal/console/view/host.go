package view

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/doctor"
	hosts "github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/status"
)

// Host is one host with all that is known of it.
type Host struct {
	status.Host
	// Cluster and Machine that have it; empty while it is free.
	Cluster, Machine string
	// Node on it, as the Machine names it.
	Node string
	// Troubles are what doctor finds about it.
	Troubles, Notes []Trouble
	// Version of Kubernetes on it; empty while it is free.
	Version   string
	Operation *Operation
	// Heartbeat is nil where it is not known.
	Heartbeat *Heartbeat
	// Life is what it was since it enrolled.
	Life       []Span
	Conditions Conditions
	Timeline   []Moment
	Facts      []Fact
}

// Operation is what the agent was told to do last.
type Operation struct {
	Phase, State, Step, Reason, Message string
	Begun, Ended                        time.Time
	// Steps are those that were begun, the oldest first, but for the Brief ones, which took less
	// than a tenth of a second each.
	Steps []Step
	Brief int
}

// Step is one of an operation.
type Step struct {
	Span
	// Done is false while it is under way, and for one that a crash or a reboot cut short.
	Done bool
}

// Moment is something that happened to a host.
type Moment struct {
	Time time.Time
	What string
	// Detail is in the words of who reported it.
	Detail string
	// Role says how it is to be taken; empty for what is neither good nor bad.
	Role status.Role
}

// Fact is what was found out about a host.
type Fact struct{ Name, Value string }

// HostOf shows a host in a snapshot; events are those about it.
func HostOf(h *infrav1.Host, o *doctor.Snapshot, states *status.States, events []Event) Host {
	told := status.HostOf(h, states)
	v := Host{Host: told, Operation: operationOf(h, o.Now), Conditions: ConditionsOf(h.Status.Conditions, told.State), Facts: factsOf(h)}
	if claim := h.Spec.Claim; claim != nil {
		v.Cluster, v.Machine = claim.ClusterName, claim.MachineName
		if machine := o.MachinesOnHosts()[keyIn(h.Namespace, claim.MachineName)]; machine != nil {
			v.Node, v.Version = machine.Status.NodeRef.Name, versionOn(machine)
		}
	}
	v.Troubles, v.Notes = TroublesOf(states.OfHost(h), o)
	v.Life = lifeOf(h, told.State, o.Now)
	v.Timeline = timelineOf(h, told.State, events)
	return v
}

func operationOf(h *infrav1.Host, now time.Time) *Operation {
	op := hosts.Observed(h)
	if op == nil {
		return nil
	}
	v := &Operation{
		Phase: string(op.Phase), State: string(op.State), Step: op.Step, Reason: op.Reason, Message: op.Message,
		Begun: op.StartTime.UTC(), Ended: op.CompletionTime.UTC(),
	}
	var spans []Span
	for i, s := range op.Steps {
		span := Span{Role: status.OK, Word: s.Name, From: s.StartTime.UTC(), To: s.CompletionTime.UTC()}
		if s.CompletionTime.IsZero() {
			span.Role, span.To = status.Work, now.UTC()
			if i+1 < len(op.Steps) {
				span.Role, span.To = status.Off, op.Steps[i+1].StartTime.UTC()
			}
		} else if span.Took() < brief {
			v.Brief++
			continue
		}
		if op.State == infrav1.OperationFailed && s.Name == op.Step {
			span.Role = status.Bad
		}
		spans = append(spans, span)
	}
	for _, s := range place(spans, op.StartTime.UTC(), endOf(op, now)) {
		v.Steps = append(v.Steps, Step{Span: s, Done: s.Role == status.OK || s.Role == status.Bad})
	}
	return v
}

// brief is how long steps take that are only counted.
const brief = 100 * time.Millisecond

// endOf is when the steps of an operation ended: those are to the microsecond, its times to the second.
func endOf(op *infrav1.ObservedOperation, now time.Time) time.Time {
	end := op.CompletionTime.UTC()
	if end.IsZero() {
		return now.UTC()
	}
	for _, s := range op.Steps {
		end = later(end, s.CompletionTime.UTC())
	}
	return end
}

// timelineOf has the newest first.
func timelineOf(h *infrav1.Host, state status.State, events []Event) []Moment {
	moments := []Moment{{Time: h.CreationTimestamp.UTC(), What: "Enrolled"}}
	if proof := h.Status.CleanProof; proof != nil {
		moments = append(moments, Moment{Time: proof.Time.UTC(), What: "Proved clean", Role: status.OK})
	}
	if op := h.Status.ObservedOperation; op != nil {
		moments = append(moments, Moment{Time: op.StartTime.UTC(), What: string(op.Phase) + " began"})
		switch op.State {
		case infrav1.OperationFailed:
			moments = append(moments, Moment{Time: op.CompletionTime.UTC(), What: string(op.Phase) + " failed at step " + op.Step, Detail: op.Message, Role: status.Bad})
		case infrav1.OperationSucceeded:
			moments = append(moments, Moment{Time: op.CompletionTime.UTC(), What: string(op.Phase) + " succeeded", Role: status.OK})
		default: // under way
		}
	}
	for _, c := range h.Status.Conditions {
		moments = append(moments, Moment{Time: c.LastTransitionTime.UTC(), What: c.Type + " became " + string(c.Status), Detail: cmp.Or(c.Message, c.Reason), Role: status.ConditionRole(c, state)})
	}
	for _, e := range Folded(events) {
		m := Moment{Time: e.Time, What: e.Reason, Detail: e.Message}
		if e.Warning {
			m.Role = status.Bad
		}
		moments = append(moments, m)
	}
	moments = slices.DeleteFunc(moments, func(m Moment) bool { return m.Time.IsZero() })
	slices.SortStableFunc(moments, func(a, b Moment) int { return b.Time.Compare(a.Time) })
	return moments[:min(len(moments), PageSize)]
}

// versionsOf are those of a host, with the origin of each that a host bundle brought.
func versionsOf(h *infrav1.Host) []string {
	versions := slices.Clone(h.Status.Inventory.KubernetesVersions)
	for i, version := range versions {
		if origin := status.OriginOf(h, version); origin != status.OriginPackages {
			versions[i] = status.Version{Version: version, Origin: origin}.String()
		}
	}
	return versions
}

func factsOf(h *infrav1.Host) []Fact {
	found := h.Status.Inventory
	facts := []Fact{
		{"Failure domain", h.Spec.FailureDomain},
		{"Approval", string(h.Spec.Approval)},
		{"Operating system", found.OperatingSystem},
		{"Kernel", found.KernelVersion},
		{"Architecture", found.Architecture},
		{"Control groups", string(found.Cgroups)},
		{"Agent", found.AgentVersion},
		{"Kubernetes versions", strings.Join(versionsOf(h), ", ")},
	}
	facts = append(facts, hardwareOf(found.Hardware)...)
	for _, name := range slices.Sorted(maps.Keys(h.Status.Capacity)) {
		quantity := h.Status.Capacity[name]
		facts = append(facts, Fact{"Capacity: " + string(name), quantity.String()})
	}
	for _, a := range h.Status.Addresses {
		facts = append(facts, Fact{string(a.Type), a.Address})
	}
	if ip := h.Status.VirtualIP; ip != nil {
		facts = append(facts, Fact{"Control-plane address", ip.Address + " (" + string(ip.State) + ")"})
	}
	facts = append(facts, Fact{"Host ID", h.Spec.HostID}, Fact{"Machine ID", found.MachineID}, Fact{"Boot ID", h.Status.BootID})
	for _, name := range slices.Sorted(maps.Keys(h.Labels)) {
		facts = append(facts, Fact{"Label " + name, h.Labels[name]})
	}
	return slices.DeleteFunc(facts, func(f Fact) bool { return f.Value == "" })
}
