package status

import (
	"cmp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/snapshot"
)

// Waits says what a cluster waits for and what to do, one entry a cause: its topology, its machines and
// pools on hosts, and its lifecycle runs. machines are those of the snapshot's MachinesOnHosts.
func Waits(c *clusterv1.Cluster, o *snapshot.Snapshot, machines map[client.ObjectKey]*clusterv1.Machine, now time.Time) []string {
	var out []string
	topology := ""
	if reconciled := meta.FindStatusCondition(c.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition); reconciled != nil {
		topology = reconciled.Message
		if reconciled.Status == "False" && topology != "" {
			out = append(out, topology)
		}
	}
	for i := range o.HostMachines {
		m := &o.HostMachines[i]
		if m.Namespace != c.Namespace || m.Labels[clusterv1.ClusterNameLabel] != c.Name {
			continue
		}
		if why := MachineWaits(m, machines[client.ObjectKeyFromObject(m)]); why != "" {
			out = append(out, m.Name+": "+why)
		}
	}
	for i := range o.HostMachinePools {
		p := &o.HostMachinePools[i]
		remediating := meta.FindStatusCondition(p.Status.Conditions, clusterv1.RemediatingCondition)
		if p.Namespace == c.Namespace && p.Labels[clusterv1.ClusterNameLabel] == c.Name && remediating != nil && remediating.Message != "" {
			out = append(out, p.Name+": "+remediating.Message)
		}
	}
	for i := range o.LifecycleRuns {
		run := &o.LifecycleRuns[i]
		if run.Namespace != c.Namespace || run.Spec.ClusterName != c.Name {
			continue
		}
		// Core repeats what the hooks of a topology answer.
		if w := plan.WaitOf(run, c, now); w != nil && !strings.Contains(topology, strings.TrimPrefix(w.Message, string(run.Spec.Hook)+": ")) {
			out = append(out, w.Message)
		}
	}
	return out
}

// MachineWaits is why a machine on a host is waited for; empty when it is not. A Node in trouble is
// reported immediately, while its HostMachine is ready for some minutes more. machine may be nil.
func MachineWaits(m *infrav1.HostMachine, machine *clusterv1.Machine) string {
	ready := meta.FindStatusCondition(m.Status.Conditions, clusterv1.ReadyCondition)
	if ready == nil {
		return ""
	}
	upToDate := meta.FindStatusCondition(m.Status.Conditions, infrav1.UpToDateCondition)
	var trouble *doctor.NodeTrouble
	if machine != nil {
		trouble = doctor.NodeTroubleOf(machine)
	}
	switch {
	case trouble != nil && (ready.Status == "True" || ready.Reason == infrav1.NodeNotReadyReason):
		return trouble.Message
	case ready.Status != "True":
		return cmp.Or(ready.Message, ready.Reason)
	case upToDate != nil && upToDate.Status == "False":
		return upToDate.Message
	}
	return ""
}
