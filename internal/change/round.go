package change

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hosts "github.com/slipway-dev/slipway/internal/host"
)

// Round is one round of reboots through the hosts of a cluster. The Cluster has it until it is over, each
// HostMachine that its host was asked in it, so that any command goes on with it.
type Round struct {
	// Began names the round.
	Began string `json:"began"`
	// Pool is the pool or machine deployment whose hosts are rebooted; empty for all of the cluster.
	Pool string `json:"pool,omitempty"`
	// IfNeeded leaves out hosts whose operating system asks for no reboot.
	IfNeeded bool `json:"ifNeeded,omitempty"`
	// MaxUnavailable is how many hosts may be away at the same time.
	MaxUnavailable int `json:"maxUnavailable"`
	// Reason why, for others who look at the hosts.
	Reason string `json:"reason,omitempty"`
}

// RoundOf is the round that a Cluster has; nil without one.
func RoundOf(cluster *clusterv1.Cluster) (*Round, error) {
	text, found := cluster.Annotations[infrav1.RebootRoundAnnotation]
	if !found {
		return nil, nil
	}
	round := &Round{}
	if err := json.Unmarshal([]byte(text), round); err != nil || round.Began == "" || round.MaxUnavailable < 1 {
		return nil, fmt.Errorf("annotation %s of Cluster %s is not of `slipway cluster reboot`; remove it: kubectl annotate cluster %s -n %s %[1]s-",
			infrav1.RebootRoundAnnotation, cluster.Name, cluster.Name, cluster.Namespace)
	}
	return round, nil
}

// String is the annotation of the Cluster.
func (r Round) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // it has no type that could fail
	}
	return string(text)
}

// RebootMember is a Machine of a cluster with what it runs on; HostMachine and Host may be nil.
type RebootMember struct {
	Machine     *clusterv1.Machine
	HostMachine *infrav1.HostMachine
	Host        *infrav1.Host
}

// RebootState is how far a host is in a round.
type RebootState string

const (
	// RebootPending hosts are yet to be rebooted.
	RebootPending RebootState = "Pending"
	// RebootUnderWay hosts are away, or not ready again.
	RebootUnderWay RebootState = "Rebooting"
	// RebootDone hosts have been rebooted, and their Nodes are ready.
	RebootDone RebootState = "Rebooted"
	// RebootFailed hosts end the round until somebody looks at them.
	RebootFailed RebootState = "Failed"
	// RebootNotNeeded hosts do not ask for it.
	RebootNotNeeded RebootState = "NotNeeded"
	// RebootLeftOut hosts cannot be rebooted by the round; the message says why.
	RebootLeftOut RebootState = "LeftOut"
)

// HostReboot is a host in a round.
type HostReboot struct {
	Host          string      `json:"host"`
	Machine       string      `json:"machine"`
	Pool          string      `json:"pool,omitempty"`
	ControlPlane  bool        `json:"controlPlane,omitempty"`
	FailureDomain string      `json:"failureDomain,omitempty"`
	State         RebootState `json:"state"`
	Message       string      `json:"message,omitempty"`

	// Of is what it was computed from.
	Of RebootMember `json:"-"`
	// away is true for a host whose Node is not ready, or that is about to be away.
	away bool
}

// Reboots computes how far a round is: the hosts in the order in which they are rebooted, control planes first,
// then one failure domain after another.
func (r Round) Reboots(members []RebootMember) []HostReboot {
	controlPlanes := 0
	for _, m := range members {
		if util.IsControlPlaneMachine(m.Machine) {
			controlPlanes++
		}
	}
	var all []HostReboot
	for _, m := range members {
		if pool := poolOf(m.Machine); r.Pool == "" || r.Pool == pool {
			all = append(all, r.reboot(m, pool, controlPlanes))
		}
	}
	slices.SortFunc(all, func(a, b HostReboot) int {
		return cmp.Or(boolean(b.ControlPlane)-boolean(a.ControlPlane), strings.Compare(a.FailureDomain, b.FailureDomain), strings.Compare(a.Host, b.Host), strings.Compare(a.Machine, b.Machine))
	})
	return all
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// poolOf is the name of a Machine's pool or machine deployment in the topology, or without one of the object itself.
func poolOf(m *clusterv1.Machine) string {
	return cmp.Or(m.Labels[clusterv1.ClusterTopologyMachinePoolNameLabel], m.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel],
		m.Labels[clusterv1.MachinePoolNameLabel], m.Labels[clusterv1.MachineDeploymentNameLabel])
}

func (m RebootMember) hasNode() bool {
	return m.Host != nil && m.HostMachine != nil && hosts.Bootstrapped(m.Host)
}

func (r Round) reboot(m RebootMember, pool string, controlPlanes int) HostReboot {
	of := HostReboot{Machine: m.Machine.Name, Pool: pool, ControlPlane: util.IsControlPlaneMachine(m.Machine), Of: m}
	leaveOut := func(format string, args ...any) HostReboot {
		of.State, of.Message = RebootLeftOut, fmt.Sprintf(format, args...)
		return of
	}
	if !m.hasNode() {
		return leaveOut("it has no node yet")
	}
	of.Host, of.FailureDomain = m.Host.Name, m.HostMachine.Status.FailureDomain
	ready := meta.IsStatusConditionTrue(m.Machine.Status.Conditions, clusterv1.MachineNodeReadyCondition) && !hosts.Disconnected(m.Host)
	of.away = !ready
	state := hosts.StateOf(m.Host)
	wanted := ptr.Deref(m.HostMachine.Spec.Reboots, 0)
	begun := m.HostMachine.Annotations[infrav1.RebootRoundAnnotation] == r.Began
	requested := ptr.Deref(m.Host.Spec.Desired.Reboots, 0) >= wanted
	switch {
	case !m.Machine.DeletionTimestamp.IsZero() || hosts.Releasing(m.Host):
		return leaveOut("it is being deleted")
	case begun && requested && state.Reason == infrav1.HostRebootFailedReason:
		of.State, of.Message = RebootFailed, state.Message
	case begun && (!requested || hosts.Busy(m.Host) || !ready):
		of.State, of.away = RebootUnderWay, true
		of.Message = cmp.Or(conditionMessage(m.HostMachine), state.Message, "its Node is not ready")
	case begun:
		of.State = RebootDone
		if m.Host.Status.RebootRequired != nil {
			of.Message = "its operating system asks for a reboot still"
		}
	case r.IfNeeded && m.Host.Status.RebootRequired == nil:
		of.State = RebootNotNeeded
	case of.ControlPlane && controlPlanes < hosts.FewestControlPlanes:
		return leaveOut("its control plane has %d hosts, and with fewer than %d none may be away; `slipway host reboot %s -n %s` reboots it all the same",
			controlPlanes, hosts.FewestControlPlanes, m.Host.Name, m.Host.Namespace)
	case !ready:
		of.State, of.Message = RebootPending, "its Node is not ready"
	default:
		of.State = RebootPending
	}
	return of
}

func conditionMessage(m *infrav1.HostMachine) string {
	if c := meta.FindStatusCondition(m.Status.Conditions, infrav1.RebootedCondition); c != nil {
		return c.Message
	}
	return ""
}

// Next are the hosts that may be rebooted now, of those that Reboots returned: a control plane alone, or as many
// of one failure domain as leave at most MaxUnavailable away. None when a reboot failed.
func (r Round) Next(all []HostReboot) []HostReboot {
	var pending []HostReboot
	away, underWay, domain := 0, 0, ""
	for _, h := range all {
		switch {
		case h.State == RebootFailed, h.State == RebootUnderWay && h.ControlPlane:
			return nil
		case h.State == RebootUnderWay:
			underWay++
			domain = h.FailureDomain
		case h.State == RebootPending && !h.away:
			pending = append(pending, h)
		}
		if h.away && h.State != RebootLeftOut {
			away++
		}
	}
	if len(pending) == 0 || away >= r.MaxUnavailable {
		return nil
	}
	if pending[0].ControlPlane {
		if underWay > 0 {
			return nil
		}
		return pending[:1]
	}
	if underWay == 0 {
		domain = pending[0].FailureDomain
	}
	pending = slices.DeleteFunc(pending, func(h HostReboot) bool { return h.FailureDomain != domain })
	return pending[:min(len(pending), r.MaxUnavailable-away)]
}

// Over says whether nothing of a round is left to do.
func Over(all []HostReboot) bool {
	return !slices.ContainsFunc(all, func(h HostReboot) bool {
		return h.State == RebootPending || h.State == RebootUnderWay || h.State == RebootFailed
	})
}
