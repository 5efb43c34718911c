package judge

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// Want is what was asked for.
type Want struct {
	// Hosts there shall be.
	Hosts int
	// Clusters by name.
	Clusters map[string]Workers
}

// Workers of a cluster, which has one control plane besides.
type Workers struct {
	// Pool and Deployment are replicas of the MachinePool and the MachineDeployment.
	Pool, Deployment int32
}

// Hosts is how many there are now.
func (j *Judge) Hosts() int { return len(j.world.hosts) }

// Missing says what is not yet as it was asked for; empty once the plane has converged.
func (j *Judge) Missing(want Want) []string {
	w := j.world
	var missing []string
	say := func(format string, args ...any) { missing = append(missing, fmt.Sprintf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(w.unseen)) {
		// One of a Cluster that is gone stays so.
		if w.lost(name) && (name == Management || w.clusters[name] != nil) {
			say("cluster %q does not answer", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.clusters)) {
		if _, wanted := want.Clusters[name]; !wanted {
			say("Cluster %s is still there", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want.Clusters)) {
		w.cluster(name, want.Clusters[name], say)
	}
	if len(w.hosts) != want.Hosts {
		say("there are %d Hosts, want %d", len(w.hosts), want.Hosts)
	}
	for _, name := range slices.Sorted(maps.Keys(w.hosts)) {
		w.hostSettled(w.hosts[name], say)
	}
	return missing
}

// cluster says what is missing to a cluster.
func (w *world) cluster(name string, want Workers, say func(string, ...any)) {
	c := w.clusters[name]
	if c == nil {
		say("there is no Cluster %s", name)
		return
	}
	if !conditions.IsTrue(c, clusterv1.ClusterTopologyReconciledCondition) || c.Status.ObservedGeneration != c.Generation {
		say("the topology of Cluster %s is not reconciled", name)
	}
	replicas := 1 + int(want.Pool+want.Deployment)
	ready := 0
	for _, n := range w.nodes[name] {
		if nodeIsReady(n) {
			ready++
		}
	}
	if len(w.nodes[name]) != replicas || ready != replicas {
		say("Cluster %s has %d Nodes, %d of them ready, want %d", name, len(w.nodes[name]), ready, replicas)
	}
	machines := 0
	for _, key := range slices.Sorted(maps.Keys(w.hostMachines)) {
		m := w.hostMachines[key]
		if m.Labels[clusterv1.ClusterNameLabel] != name || halfMade(m) {
			continue
		}
		machines++
		if !m.DeletionTimestamp.IsZero() {
			say("HostMachine %s is being deleted", m.Name)
		} else if !conditions.IsTrue(m, clusterv1.ReadyCondition) {
			say("HostMachine %s is not Ready: %s", m.Name, reason(m.Status.Conditions, clusterv1.ReadyCondition))
		}
	}
	if machines != replicas {
		say("Cluster %s has %d HostMachines, want %d", name, machines, replicas)
	}
	w.workers(name, want, say)
}

// halfMade says whether Cluster API created a HostMachine and ended before it created its Machine: it creates
// another pair then, and leaves this one (https://github.com/kubernetes-sigs/cluster-api/issues/1718), which has
// no host. The doctor's check HostMachineUnowned names it.
func halfMade(m *infrav1.HostMachine) bool {
	return m.Spec.ProviderID == "" && m.Status.HostRef.Name == "" && len(m.OwnerReferences) == 1 &&
		slices.Contains([]string{"KubeadmControlPlane", "MachineSet"}, m.OwnerReferences[0].Kind)
}

// workers says what is missing to the pools and deployments of a cluster.
func (w *world) workers(name string, want Workers, say func(string, ...any)) {
	for _, p := range w.pools {
		if p.Spec.ClusterName == name && (ptr.Deref(p.Spec.Replicas, 0) != want.Pool || ptr.Deref(p.Status.ReadyReplicas, 0) != want.Pool) {
			say("MachinePool %s has %d replicas, %d of them ready, want %d", p.Name, ptr.Deref(p.Spec.Replicas, 0), ptr.Deref(p.Status.ReadyReplicas, 0), want.Pool)
		}
	}
	for _, d := range w.deployments {
		s := d.Status
		if d.Spec.ClusterName != name {
			continue
		}
		for _, n := range []*int32{d.Spec.Replicas, s.Replicas, s.ReadyReplicas, s.UpToDateReplicas} {
			if ptr.Deref(n, 0) != want.Deployment || s.ObservedGeneration != d.Generation {
				say("MachineDeployment %s has %d replicas, %d ready, %d up to date, want %d", d.Name, ptr.Deref(s.Replicas, 0), ptr.Deref(s.ReadyReplicas, 0), ptr.Deref(s.UpToDateReplicas, 0), want.Deployment)
				break
			}
		}
	}
	for _, p := range w.hostPools {
		if p.Labels[clusterv1.ClusterNameLabel] != name {
			continue
		}
		if !conditions.IsTrue(p, clusterv1.ReadyCondition) || conditions.IsTrue(p, clusterv1.RollingOutCondition) {
			say("HostMachinePool %s is not Ready (%s) or rolls out (%s)", p.Name, reason(p.Status.Conditions, clusterv1.ReadyCondition), reason(p.Status.Conditions, clusterv1.RollingOutCondition))
		}
		var members []string
		for _, m := range w.hostMachines {
			if slices.ContainsFunc(m.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == p.UID }) {
				members = append(members, m.Spec.ProviderID)
			}
		}
		if slices.Sort(members); !slices.Equal(members, p.Spec.ProviderIDList) || len(members) != int(want.Pool) {
			say("HostMachinePool %s lists %v, its members are %v", p.Name, p.Spec.ProviderIDList, members)
		}
	}
}

// hostSettled says what is missing to a host: it is free and can be claimed, or its
// machine is there.
func (w *world) hostSettled(h *infrav1.Host, say func(string, ...any)) {
	if !host.Connected(h) {
		say("%s is not connected", h.Name)
	}
	claim := h.Spec.Claim
	switch {
	case claim == nil && h.Status.Phase != infrav1.HostPhaseAvailable:
		say("%s is %s: %s", h.Name, h.Status.Phase, reason(h.Status.Conditions, clusterv1.ReadyCondition))
	case claim != nil && (w.hostMachines[claim.MachineName] == nil || w.hostMachines[claim.MachineName].Spec.ClaimID != claim.ClaimID):
		say("%s is %s, claimed by HostMachine %s that is not there", h.Name, h.Status.Phase, claim.MachineName)
	}
}

func reason(all []metav1.Condition, name string) string {
	for _, c := range all {
		if c.Type == name {
			return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
		}
	}
	return "no condition " + name
}
