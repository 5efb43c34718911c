package doctor

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// pausePatience is how long a pause passes for one that somebody has in mind.
const pausePatience = time.Hour

var _ = register(Check{
	Layer:  Housekeeping + 3,
	Name:   "Paused",
	Effect: Pause,
	Means:  "somebody paused a Cluster, the rollout of an AgentRelease, or one object by its annotation: nothing changes there until the pause ends",
	Remedy: "End the pause when its purpose is done. It is a note for an hour, then a warning.",
	find: func(s *Snapshot) []Finding {
		return slices.Concat(
			each(s.Clusters, func(c *clusterv1.Cluster) (Finding, bool) {
				if ptr.Deref(c.Spec.Paused, false) {
					f := s.paused(atCluster(c, Note), c.Status.Conditions)
					f.Message = "spec.paused is set"
					return f.next(`kubectl patch %s -n %s --type=merge -p '{"spec":{"paused":false}}'`, f.Object.Resource(), c.Namespace), true
				}
				return s.annotated(atCluster(c, Note), c, c.Status.Conditions)
			}),
			each(s.Machines, func(m *clusterv1.Machine) (Finding, bool) {
				return s.annotated(atMachine(m, Note), m, m.Status.Conditions)
			}),
			each(s.HostClusters, func(c *infrav1.HostCluster) (Finding, bool) {
				return s.annotated(atHostCluster(c, Note), c, c.Status.Conditions)
			}),
			each(s.HostMachinePools, func(p *infrav1.HostMachinePool) (Finding, bool) {
				return s.annotated(at(infrav1.GroupVersion, "HostMachinePool", p, Note), p, p.Status.Conditions)
			}),
			each(s.HostMachines, func(m *infrav1.HostMachine) (Finding, bool) {
				return s.annotated(atHostMachine(m, Note), m, m.Status.Conditions)
			}),
			each(s.AgentReleases, func(r *infrav1.AgentRelease) (Finding, bool) {
				c := condition(r.Status.Conditions, infrav1.AgentReleaseRolledOutCondition, metav1.ConditionFalse, infrav1.AgentReleasePausedReason)
				if c == nil {
					return none()
				}
				f := s.lasting(at(infrav1.GroupVersion, "AgentRelease", r, Note), c)
				f.Message = "spec.paused is set"
				return f.next(`kubectl patch %s --type=merge -p '{"spec":{"paused":false}}'`, f.Object.Resource()), true
			}),
			each(s.Hosts, func(h *infrav1.Host) (Finding, bool) { return s.annotated(atHost(h, Note), h, h.Status.Conditions) }),
		)
	},
})

// annotated is the finding of an object that is paused by itself.
func (s *Snapshot) annotated(f Finding, o metav1.Object, conditions []metav1.Condition) (Finding, bool) {
	if _, paused := o.GetAnnotations()[clusterv1.PausedAnnotation]; !paused {
		return none()
	}
	f = s.paused(f, conditions)
	f.Message = "annotation " + clusterv1.PausedAnnotation + " is set"
	return f.next("kubectl annotate %s -n %s %s-", f.Object.Resource(), o.GetNamespace(), clusterv1.PausedAnnotation), true
}

// paused says since when, as the controller of the object saw it.
func (s *Snapshot) paused(f Finding, conditions []metav1.Condition) Finding {
	c := meta.FindStatusCondition(conditions, clusterv1.PausedCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return f
	}
	return s.lasting(f, c)
}

// lasting makes a pause that has lasted long worth a warning.
func (s *Snapshot) lasting(f Finding, c *metav1.Condition) Finding {
	if s.Now.Sub(c.LastTransitionTime.Time) >= pausePatience {
		f.Severity = Warning
	}
	return f.since(c.LastTransitionTime.Time)
}
