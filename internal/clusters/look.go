package clusters

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// Count is how many machines of one role there are.
type Count struct {
	Desired int32 `json:"desired"`
	Ready   int32 `json:"ready"`
	// UpToDate are those that are as the topology asks.
	UpToDate int32 `json:"upToDate"`
}

func (c Count) String() string { return fmt.Sprintf("%d/%d", c.Ready, c.Desired) }

// lacking says how many machines of a role are not ready or not up to date.
func (c Count) lacking(role string) []string {
	switch {
	case c.Ready != c.Desired:
		return []string{fmt.Sprintf("%d of %d %s ready", c.Ready, c.Desired, role)}
	case c.UpToDate != c.Desired:
		return []string{fmt.Sprintf("%d of %d %s up to date", c.UpToDate, c.Desired, role)}
	}
	return nil
}

// State is how far a Cluster has come.
type State struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Class     string `json:"class,omitempty"`
	Version   string `json:"version,omitempty"`
	Phase     string `json:"phase"`
	// ControlPlane and Workers count machines.
	ControlPlane Count `json:"controlPlane"`
	Workers      Count `json:"workers"`
	// Available is the status of the condition Available.
	Available metav1.ConditionStatus `json:"available"`
	// Reached says that what the Cluster asks for is there.
	Reached bool `json:"reached"`
	// Waiting says what it waits for; empty once Reached.
	Waiting string `json:"waiting,omitempty"`
}

// underWay are conditions that are True while something changes.
var underWay = []string{clusterv1.ClusterRollingOutCondition, clusterv1.ClusterScalingUpCondition, clusterv1.ClusterScalingDownCondition}

// Look tells how far a Cluster has come. A Cluster whose spec Cluster API has not seen yet
// has reached nothing, whatever its conditions say of the one before.
func Look(c *clusterv1.Cluster) State {
	s := State{
		Namespace: c.Namespace, Name: c.Name, Phase: c.Status.Phase,
		Class: c.Spec.Topology.ClassRef.Name, Version: c.Spec.Topology.Version,
		Available: metav1.ConditionUnknown,
	}
	if cp := c.Status.ControlPlane; cp != nil {
		s.ControlPlane = Count{ptr.Deref(cp.DesiredReplicas, 0), ptr.Deref(cp.ReadyReplicas, 0), ptr.Deref(cp.UpToDateReplicas, 0)}
	}
	if w := c.Status.Workers; w != nil {
		s.Workers = Count{ptr.Deref(w.DesiredReplicas, 0), ptr.Deref(w.ReadyReplicas, 0), ptr.Deref(w.UpToDateReplicas, 0)}
	}
	if available := conditions.Get(c, clusterv1.ClusterAvailableCondition); available != nil {
		s.Available = available.Status
	}
	s.Waiting = waiting(c, s)
	s.Reached = s.Waiting == ""
	return s
}

// waiting says what keeps a Cluster from what it asks for.
func waiting(c *clusterv1.Cluster, s State) string {
	if !c.DeletionTimestamp.IsZero() {
		if conditions.IsTrue(c, clusterv1.ClusterDeletingCondition) {
			return cmp.Or(text(c, clusterv1.ClusterDeletingCondition), "it is being deleted")
		}
		return "it is being deleted"
	}
	if c.Status.ObservedGeneration < c.Generation {
		return "Cluster API has not seen the change yet"
	}
	if c.Spec.Topology.IsDefined() {
		reconciled := conditions.Get(c, clusterv1.ClusterTopologyReconciledCondition)
		if reconciled == nil || reconciled.ObservedGeneration < c.Generation {
			return "the topology is not reconciled yet"
		}
		if reconciled.Status != metav1.ConditionTrue {
			return cmp.Or(reconciled.Message, reconciled.Reason)
		}
		if want := ptr.Deref(c.Spec.Topology.ControlPlane.Replicas, s.ControlPlane.Desired); want != s.ControlPlane.Desired {
			return fmt.Sprintf("the control plane is to have %d machines", want)
		}
		if want, fixed := topologyWorkers(c); fixed && want != s.Workers.Desired {
			return fmt.Sprintf("the workers are to be %d machines", want)
		}
		if behind := otherVersions(c); behind != "" {
			return behind
		}
	}
	// What is under way does not end before this is mended.
	if infrastructure := conditions.Get(c, clusterv1.ClusterInfrastructureReadyCondition); infrastructure != nil && infrastructure.Status == metav1.ConditionFalse {
		return cmp.Or(infrastructure.Message, infrastructure.Reason)
	}
	for _, condition := range underWay {
		if conditions.IsTrue(c, condition) {
			return cmp.Or(text(c, condition), condition)
		}
	}
	if s.Available != metav1.ConditionTrue {
		return cmp.Or(text(c, clusterv1.ClusterAvailableCondition), "it is not available yet")
	}
	return strings.Join(append(s.ControlPlane.lacking("control planes"), s.Workers.lacking("workers")...), "; ")
}

func text(c *clusterv1.Cluster, condition string) string {
	found := conditions.Get(c, condition)
	if found == nil {
		return ""
	}
	return cmp.Or(found.Message, found.Reason)
}

// topologyWorkers is how many workers a topology asks for; not when something else, such as
// an autoscaler, decides about one of its sets.
func topologyWorkers(c *clusterv1.Cluster) (want int32, fixed bool) {
	workers := c.Spec.Topology.Workers
	for i := range workers.MachinePools {
		if workers.MachinePools[i].Replicas == nil {
			return 0, false
		}
		want += *workers.MachinePools[i].Replicas
	}
	for i := range workers.MachineDeployments {
		if workers.MachineDeployments[i].Replicas == nil {
			return 0, false
		}
		want += *workers.MachineDeployments[i].Replicas
	}
	return want, true
}

// otherVersions tells of machines whose version is not that of the topology.
func otherVersions(c *clusterv1.Cluster) string {
	var versions []clusterv1.StatusVersion
	if c.Status.ControlPlane != nil {
		versions = append(versions, c.Status.ControlPlane.Versions...)
	}
	if c.Status.Workers != nil {
		versions = append(versions, c.Status.Workers.Versions...)
	}
	var behind []string
	for _, v := range versions {
		if v.Version != c.Spec.Topology.Version && v.Replicas > 0 && !slices.Contains(behind, v.Version) {
			behind = append(behind, v.Version)
		}
	}
	if len(behind) == 0 {
		return ""
	}
	return fmt.Sprintf("machines of %s are to become %s", strings.Join(behind, " and "), c.Spec.Topology.Version)
}
