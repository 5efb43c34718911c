package doctor

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// initializationPatience is how long after the bootstrap of its first host Cluster API may take
// to reach a control plane.
const initializationPatience = 5 * time.Minute

var _ = register(Check{
	Layer: ControlPlane + 4,
	Name:  "EndpointNotAnswering",
	Means: "no API server answers at the address and port of a control plane, or Cluster API does not reach it there",
	Remedy: "Let the API servers listen at the port of the control-plane endpoint: localAPIEndpoint.bindPort of initConfiguration and of joinConfiguration.controlPlane. " +
		"If they do, open that port between the management cluster and the hosts.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostClusters, func(c *infrav1.HostCluster) (Finding, bool) {
			progress := s.progress(c)
			if progress == pending {
				return none()
			}
			held := meta.FindStatusCondition(c.Status.Conditions, infrav1.EndpointHeldCondition)
			endpoint := net.JoinHostPort(c.Spec.ControlPlaneEndpoint.Host, strconv.Itoa(int(c.Spec.ControlPlaneEndpoint.Port)))
			switch {
			case held != nil && held.Status == metav1.ConditionFalse && held.Reason == infrav1.EndpointNotAnsweringReason:
				return atHostCluster(c, s.severitySince(held.LastTransitionTime.Time)).of(held).describe(), true
			case progress == overdue && (held == nil || held.Status == metav1.ConditionTrue || held.Reason == infrav1.EndpointNotCheckedReason):
				owner := s.Cluster(c.Namespace, c.Labels[clusterv1.ClusterNameLabel])
				f := atCluster(owner, Error).next("where Cluster API runs: curl -k https://%s/readyz", endpoint)
				if initialized := meta.FindStatusCondition(owner.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition); initialized != nil {
					f = f.of(initialized)
				}
				f.Message = fmt.Sprintf("Cluster API does not reach the control plane at %s, although a host of it has bootstrapped", endpoint)
				return f, true
			}
			return none()
		})
	},
})

// progress is how far a control plane has come with its first host.
type progress int

const (
	// initialized is a control plane that was reached once, or of which nothing is known.
	initialized progress = iota
	// pending is one that may still be bootstrapping.
	pending
	// overdue is one of which a host has bootstrapped some time ago.
	overdue
)

// progress of the control plane of a HostCluster.
func (s *Snapshot) progress(c *infrav1.HostCluster) progress {
	owner := s.Cluster(c.Namespace, c.Labels[clusterv1.ClusterNameLabel])
	if owner == nil || meta.IsStatusConditionTrue(owner.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition) {
		return initialized
	}
	if !owner.DeletionTimestamp.IsZero() {
		return pending
	}
	for i := range s.Hosts {
		h := &s.Hosts[i]
		op := h.Status.ObservedOperation
		if h.Namespace == c.Namespace && h.Spec.Claim != nil && h.Spec.Claim.ClusterName == owner.Name &&
			op != nil && op.State == infrav1.OperationSucceeded && op.Phase != infrav1.HostDesiredReset && s.Now.Sub(op.CompletionTime.Time) >= initializationPatience {
			return overdue
		}
	}
	return pending
}
