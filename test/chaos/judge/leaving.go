package judge

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// oneHostPerTerm: each election for a control-plane address makes a term. Two hosts that report the
// address in the same term had it at the same time.
func oneHostPerTerm(Limits) rule {
	type term struct {
		cluster, address string
		number           int32
	}
	bound := map[term]string{}
	return func(_ *world, c change) []finding {
		_, after, _ := versions[*infrav1.Host](c)
		if after == nil || after.Spec.Claim == nil || after.Status.VirtualIP == nil || after.Status.VirtualIP.State != infrav1.VirtualIPHeld {
			return nil
		}
		v := after.Status.VirtualIP
		of := term{after.Spec.Claim.ClusterName, v.Address, v.Term}
		before, known := bound[of]
		bound[of] = after.Name
		if !known || before == after.Name {
			return nil
		}
		return []finding{{fmt.Sprintf("%s and %s hold %s of Cluster %s in term %d", before, after.Name, v.Address, of.cluster, v.Term), []string{before, after.Name}}}
	}
}

// nothingDeletedClaims: no machine claims a host that is being deleted, or whose Machine or Cluster is, or
// what made its Machine.
// A claim may cross a deletion on its way, but not by as much as clusters are seen apart.
func nothingDeletedClaims(limits Limits) rule {
	return func(w *world, c change) []finding {
		before, after, _ := versions[*infrav1.Host](c)
		if c.Unseen || !claimed(before, after) {
			return nil
		}
		claim := after.Spec.Claim
		leavers := map[string]client.Object{}
		if m := w.hostMachines[claim.MachineName]; m != nil {
			leavers["HostMachine"] = m
		}
		for _, m := range w.machines {
			if m.Spec.InfrastructureRef.Name == claim.MachineName {
				leavers["Machine"] = m
				w.makers(m, leavers)
			}
		}
		if cluster := w.clusters[claim.ClusterName]; cluster != nil {
			leavers["Cluster"] = cluster
		}
		for name := range w.pools {
			if m := w.hostMachines[claim.MachineName]; m != nil && m.Labels[clusterv1.MachinePoolNameLabel] == name {
				leavers["MachinePool"] = w.pools[name]
			}
		}
		for _, kind := range []string{"Cluster", "MachinePool", "MachineDeployment", "MachineSet", "Machine", "HostMachine"} {
			if o := leavers[kind]; o != nil && !o.GetDeletionTimestamp().IsZero() && c.Seen.Sub(o.GetDeletionTimestamp().Time) > limits.Lag {
				return []finding{{fmt.Sprintf("%s is claimed by HostMachine %s, whose %s %s is being deleted since %s", after.Name, claim.MachineName, kind, o.GetName(),
					o.GetDeletionTimestamp().UTC().Format("15:04:05")), []string{after.Name}}}
			}
		}
		return nil
	}
}

// makers adds the MachineSet that made a Machine, and its MachineDeployment.
func (w *world) makers(m *clusterv1.Machine, leavers map[string]client.Object) {
	of := metav1.GetControllerOf(m)
	if of == nil || of.Kind != "MachineSet" || w.machineSets[of.Name] == nil {
		return
	}
	set := w.machineSets[of.Name]
	leavers["MachineSet"] = set
	if of = metav1.GetControllerOf(set); of != nil && w.deployments[of.Name] != nil {
		leavers["MachineDeployment"] = w.deployments[of.Name]
	}
}
