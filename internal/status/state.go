package status

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/doctor"
	hosts "github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/text"
)

// Role says how a state is to be taken.
type Role = display.Role

// The roles.
const (
	OK   = display.OK
	Work = display.Work
	Wait = display.Wait
	Bad  = display.Bad
	Free = display.Free
	Off  = display.Off
)

// State is the one answer to how a host, a machine or a cluster is. Whatever shows one, or a colour
// for one, takes it from here.
type State struct {
	Role Role `json:"role"`
	// Word is what it does, such as Running, or the name of the check that found what is wrong.
	Word string `json:"word"`
	// Since is when that began; nil when it is not known.
	Since *time.Time `json:"since,omitempty"`
	// Cause says why; empty for what is as it should be.
	Cause string `json:"cause,omitempty"`
	// Next is the command that ends what is wrong, as doctor has it; empty otherwise.
	Next string `json:"next,omitempty"`
}

// Attention says whether somebody must act or decide.
func (s State) Attention() bool { return s.Role == Bad || s.Role == Wait }

// For is how long it has been so, such as 4m30s; empty when that is not known.
func (s State) For(now time.Time) string {
	if s.Since == nil {
		return ""
	}
	return duration.HumanDuration(max(0, now.Sub(*s.Since)))
}

// Cells are what tables show of a state: its word, and for how long.
func (s State) Cells(now time.Time) []display.Cell {
	return []display.Cell{{Text: s.Word, Role: s.Role}, {Text: s.For(now)}}
}

// StateOf is the state of a host with the machine that it serves, or of a machine that waits for a
// host: h may be nil then, and m and machine may be for a free host. Of the Node it knows what core's
// Machine says of it. findings are those about these objects.
func StateOf(h *infrav1.Host, m *infrav1.HostMachine, machine *clusterv1.Machine, findings []doctor.Finding) State {
	switch {
	case h != nil:
		return judge(hostState(h, machine), findings)
	case machine != nil && !machine.DeletionTimestamp.IsZero():
		return judge(State{Role: Work, Word: "Deleting", Since: at(*machine.DeletionTimestamp)}, findings)
	case m != nil && !m.DeletionTimestamp.IsZero():
		return judge(State{Role: Work, Word: "Deleting", Since: at(*m.DeletionTimestamp)}, findings)
	case m != nil && m.Status.HostRef.Name != "":
		return judge(State{Role: Off, Word: "Unknown", Cause: "Host " + m.Status.HostRef.Name + " may not be read"}, findings)
	case m != nil:
		s := State{Role: Work, Word: "Claiming", Since: at(m.CreationTimestamp)}
		if ready := meta.FindStatusCondition(m.Status.Conditions, clusterv1.ReadyCondition); ready != nil && ready.Status != metav1.ConditionTrue {
			s.Cause = ready.Message
		}
		return judge(s, findings)
	case machine != nil:
		return judge(State{Role: Off, Word: cmp.Or(machine.Status.Phase, "Unknown"), Since: at(machine.CreationTimestamp)}, findings)
	}
	return judge(State{Role: Off, Word: "Unknown"}, findings)
}

// StateOfCluster is the state of a cluster; findings are those that name it.
func StateOfCluster(c *clusterv1.Cluster, findings []doctor.Finding) State {
	return judge(clusterState(c), findings)
}

// judge lets findings decide: the worst trouble before a decision that is waited for, and both before
// a pause. What is under way comes before a trouble of less than a minute, which it may cause.
func judge(s State, findings []doctor.Finding) State {
	best := rank(s)
	for i := range findings {
		found, order := ofFinding(&findings[i])
		if order < best {
			s, best = found, order
		}
	}
	return s
}

// Ranks of what is shown of an object, the first before all others.
const (
	broken = iota
	failing
	undecided
	paused
	busy
	starting
	kept
	fine
	silent
)

func rank(s State) int {
	switch {
	case s.Role == Bad:
		return failing
	case s.Role == Work && s.Word != joining:
		return busy
	default:
		return fine
	}
}

// joining is the word for a host whose Node is not ready yet, of which doctor finds nothing so far.
const joining = "Joining"

// ofFinding is the state of an object of which only this was found, and its rank.
func ofFinding(f *doctor.Finding) (State, int) {
	s := State{Word: f.Check, Since: f.Since, Cause: text.OneLine(f.Message), Next: f.Next}
	role, order := Off, silent
	switch effect := f.Effect(); {
	case f.Severity == doctor.Error:
		role, order = Bad, broken
	case f.Severity == doctor.Warning && effect == doctor.Trouble:
		role, order = Bad, failing
	case f.Severity == doctor.Warning, effect == doctor.Decision:
		role, order = Wait, undecided
	case effect == doctor.Pause:
		order = paused
	case effect == doctor.Trouble:
		order = starting
	case effect == doctor.Hold:
		order = kept
	}
	s.Role = role
	return s, order
}

// Ranked are the states of findings of which nothing else is known, those first on which somebody must
// act; those of one rank keep their order. order has the finding of each.
func Ranked(findings []doctor.Finding) (states []State, order []*doctor.Finding) {
	type ranked struct {
		State
		of   *doctor.Finding
		rank int
	}
	all := make([]ranked, len(findings))
	for i := range findings {
		s, rank := ofFinding(&findings[i])
		all[i] = ranked{s, &findings[i], rank}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	for i := range all {
		states, order = append(states, all[i].State), append(order, all[i].of)
	}
	return states, order
}

// hostState is the state of a host about which nothing was found.
func hostState(h *infrav1.Host, machine *clusterv1.Machine) State {
	now := hosts.StateOf(h)
	s := State{Role: Work, Word: string(now.Phase), Cause: text.OneLine(now.Message), Since: hostSince(h, now.Phase)}
	switch {
	case !h.DeletionTimestamp.IsZero():
		return State{Role: Work, Word: "Deleting", Since: at(*h.DeletionTimestamp)}
	case now.Phase == infrav1.HostPhaseQuarantined, now.Phase == infrav1.HostPhaseFailed:
		s.Role = Bad
	case now.Phase == infrav1.HostPhaseAvailable:
		s.Role = Free
	case now.Phase == infrav1.HostPhaseRunning:
		return runningState(s, machine)
	}
	return s
}

// runningState is the state of a host that was provisioned, by the Node of its machine.
func runningState(s State, machine *clusterv1.Machine) State {
	s.Role = OK
	switch {
	case machine == nil:
		return s
	case !machine.DeletionTimestamp.IsZero():
		return State{Role: Work, Word: "Deleting", Since: at(*machine.DeletionTimestamp)}
	}
	node := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.MachineNodeReadyCondition)
	switch {
	case node == nil || node.Status == metav1.ConditionTrue:
	case doctor.NodeTroubleOf(machine) != nil, machine.Status.NodeRef.Name == "":
		s.Role, s.Word, s.Cause = Work, joining, text.OneLine(node.Message)
	default:
		s.Role, s.Word, s.Cause, s.Since = Off, "NodeUnknown", text.OneLine(cmp.Or(node.Message, node.Reason)), at(node.LastTransitionTime)
	}
	return s
}

// hostSince is when a host came into its phase.
func hostSince(h *infrav1.Host, phase infrav1.HostPhase) *time.Time {
	op := hosts.Observed(h)
	switch phase {
	case infrav1.HostPhaseEnrolling:
		return at(h.CreationTimestamp)
	case infrav1.HostPhaseAvailable:
		if h.Status.CleanProof != nil {
			return at(h.Status.CleanProof.Time)
		}
	case infrav1.HostPhaseRunning, infrav1.HostPhaseFailed, infrav1.HostPhaseQuarantined:
		if op != nil {
			return at(op.CompletionTime)
		}
	default:
		if op != nil {
			return at(op.StartTime)
		}
	}
	if ready := meta.FindStatusCondition(h.Status.Conditions, clusterv1.ReadyCondition); ready != nil {
		return at(ready.LastTransitionTime)
	}
	return nil
}

// clusterState is the state of a cluster about which nothing was found.
func clusterState(c *clusterv1.Cluster) State {
	if !c.DeletionTimestamp.IsZero() {
		return State{Role: Work, Word: "Deleting", Since: at(*c.DeletionTimestamp)}
	}
	available := meta.FindStatusCondition(c.Status.Conditions, clusterv1.ClusterAvailableCondition)
	if doctor.NeverAvailable(c) && (available != nil || !meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition)) {
		return State{Role: Work, Word: "Provisioning", Since: at(c.CreationTimestamp)}
	}
	of := func(role Role, word string, c *metav1.Condition) State {
		s := State{Role: role, Word: word, Since: at(c.LastTransitionTime)}
		if role != OK {
			s.Cause = text.OneLine(c.Message)
		}
		return s
	}
	for _, kind := range doctor.UnderWay {
		if condition := meta.FindStatusCondition(c.Status.Conditions, kind); condition != nil && condition.Status == metav1.ConditionTrue {
			return of(Work, kind, condition)
		}
	}
	if topology := meta.FindStatusCondition(c.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition); topology != nil && topology.Status == metav1.ConditionFalse {
		return of(Work, "Reconciling", topology)
	}
	switch {
	case available == nil:
		return State{Role: Off, Word: "Unknown"}
	case available.Status == metav1.ConditionTrue:
		return of(OK, "Available", available)
	}
	return of(Off, "NotAvailable", available)
}

// ConditionRole is how a condition of an object in a state is to be taken. What is under way is never
// bad, and neither is a host that cannot be claimed because it is in use.
func ConditionRole(c metav1.Condition, of State) Role {
	faulty := slices.Contains([]string{infrav1.DuplicateIdentityCondition, infrav1.ClockSkewedCondition}, c.Type)
	switch {
	case slices.Contains([]string{infrav1.EvacuatingCondition, clusterv1.PausedCondition, clusterv1.DeletingCondition}, c.Type) || slices.Contains(doctor.UnderWay, c.Type):
		if c.Status == metav1.ConditionTrue {
			return Work
		}
		return Off
	case c.Status == metav1.ConditionUnknown, faulty && c.Status == metav1.ConditionFalse,
		c.Type == infrav1.AvailableCondition && c.Reason == infrav1.HostClaimedReason:
		return Off
	case c.Status == metav1.ConditionTrue && !faulty:
		return OK
	case of.Role == Bad || faulty:
		return Bad
	}
	return of.Role
}

// States has the states of all hosts, machines and clusters of a snapshot.
type States struct {
	findings []doctor.Finding
	machines map[types.NamespacedName]*clusterv1.Machine
	known    map[types.NamespacedName]*infrav1.Host
	// Findings about them, in the order of findings.
	hosts, hostMachines, clusters, pools map[types.NamespacedName][]doctor.Finding
}

// Judge applies doctor's checks to a snapshot, once for all states of it.
func Judge(s *doctor.Snapshot) *States {
	// What is shown of an object does not depend on which others are.
	whole := *s
	whole.Scope.Selector = nil
	all := &States{
		findings: doctor.Diagnose(&whole).Findings, machines: s.MachinesOnHosts(), known: make(map[types.NamespacedName]*infrav1.Host, len(s.Hosts)),
		hosts: map[types.NamespacedName][]doctor.Finding{}, hostMachines: map[types.NamespacedName][]doctor.Finding{}, clusters: map[types.NamespacedName][]doctor.Finding{}, pools: map[types.NamespacedName][]doctor.Finding{},
	}
	for i := range s.Hosts {
		all.known[client.ObjectKeyFromObject(&s.Hosts[i])] = &s.Hosts[i]
	}
	ofMachine := make(map[types.NamespacedName]types.NamespacedName, len(all.machines))
	for key, m := range all.machines {
		ofMachine[client.ObjectKeyFromObject(m)] = key
	}
	hostOf := make(map[types.NamespacedName]string, len(s.HostMachines))
	for i := range s.HostMachines {
		hostOf[client.ObjectKeyFromObject(&s.HostMachines[i])] = s.HostMachines[i].Status.HostRef.Name
	}
	for _, f := range all.findings {
		key := types.NamespacedName{Namespace: f.Object.Namespace, Name: f.Object.Name}
		// What is paused or kept back in a cluster does not pause the cluster.
		if f.Cluster != "" && (f.Severity != doctor.Note || f.Object.Kind == "Cluster" || f.Effect() == doctor.Trouble || f.Effect() == doctor.Decision) {
			cluster := types.NamespacedName{Namespace: key.Namespace, Name: f.Cluster}
			of := f
			if f.Object.Kind != "Cluster" {
				of.Message = f.Object.Kind + " " + f.Object.Name + ": " + f.Message
			}
			all.clusters[cluster] = append(all.clusters[cluster], of)
		}
		machine := key
		switch f.Object.Kind {
		case "Host":
			all.hosts[key] = append(all.hosts[key], f)
			continue
		case "HostMachinePool":
			all.pools[key] = append(all.pools[key], f)
			continue
		case "Machine":
			machine = ofMachine[key]
		case "HostMachine":
		default:
			continue
		}
		all.hostMachines[machine] = append(all.hostMachines[machine], f)
		if name := hostOf[machine]; name != "" {
			host := types.NamespacedName{Namespace: machine.Namespace, Name: name}
			all.hosts[host] = append(all.hosts[host], f)
		}
	}
	return all
}

// Findings are those of doctor that concern hosts, machines and clusters, the most severe first.
func (s *States) Findings() []doctor.Finding { return s.findings }

// OfHost are the findings about a host, and about the machine that has it.
func (s *States) OfHost(h *infrav1.Host) []doctor.Finding {
	return s.hosts[client.ObjectKeyFromObject(h)]
}

// OfCluster are the findings that name a cluster.
func (s *States) OfCluster(c *clusterv1.Cluster) []doctor.Finding {
	return s.clusters[client.ObjectKeyFromObject(c)]
}

// Host is the state of a host of the snapshot.
func (s *States) Host(h *infrav1.Host) State {
	var machine *clusterv1.Machine
	if claim := h.Spec.Claim; claim != nil {
		machine = s.machines[client.ObjectKey{Namespace: h.Namespace, Name: claim.MachineName}]
	}
	return StateOf(h, nil, machine, s.hosts[client.ObjectKeyFromObject(h)])
}

// Machine is the state of a HostMachine, which is that of its host once it has one.
func (s *States) Machine(m *infrav1.HostMachine) State {
	key := client.ObjectKeyFromObject(m)
	var h *infrav1.Host
	if m.Status.HostRef.Name != "" {
		h = s.known[client.ObjectKey{Namespace: m.Namespace, Name: m.Status.HostRef.Name}]
	}
	found := s.hostMachines[key]
	if h != nil {
		found = s.hosts[client.ObjectKeyFromObject(h)]
	}
	return StateOf(h, m, s.machines[key], found)
}

// Cluster is the state of a cluster of the snapshot.
func (s *States) Cluster(c *clusterv1.Cluster) State {
	return StateOfCluster(c, s.clusters[client.ObjectKeyFromObject(c)])
}

// Pool is the state of a pool of machines.
func (s *States) Pool(p *infrav1.HostMachinePool) State {
	now := State{Role: OK, Word: "Available"}
	if rolling := meta.FindStatusCondition(p.Status.Conditions, clusterv1.RollingOutCondition); rolling != nil && rolling.Status == metav1.ConditionTrue {
		now = State{Role: Work, Word: clusterv1.RollingOutCondition, Since: at(rolling.LastTransitionTime)}
	}
	return judge(now, s.pools[client.ObjectKeyFromObject(p)])
}

func at(t metav1.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	utc := t.UTC()
	return &utc
}
