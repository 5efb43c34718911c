package hostcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// candidate is what a host says about the endpoint.
type candidate struct {
	host      string
	report    infrav1.VirtualIPStatus
	connected bool
}

// findHolder tells in a condition which host holds the endpoint. It is for people
// only: the hosts elect the holder among themselves.
func (r *Reconciler) findHolder(_ context.Context, s *scope) error {
	spec := s.hostCluster.Spec
	if spec.Endpoint.Type == infrav1.EndpointExternal || spec.ControlPlaneEndpoint.Host == "" {
		conditions.Delete(s.hostCluster, infrav1.EndpointHeldCondition)
		return nil
	}
	all := candidates(s.hosts, s.cluster.Name, spec.ControlPlaneEndpoint.Host)
	condition := heldCondition(spec.ControlPlaneEndpoint.Host, all)
	before := conditions.Get(s.hostCluster, infrav1.EndpointHeldCondition)
	if condition.Status == metav1.ConditionFalse && slices.ContainsFunc(all, candidate.troubled) && (before == nil || before.Message != condition.Message) {
		r.Recorder.Eventf(s.hostCluster, nil, "Warning", "Endpoint"+condition.Reason, "Hold", "%.900s", condition.Message)
	}
	conditions.Set(s.hostCluster, condition)
	return nil
}

// troubled says whether something stands in the way of the host, or of its holding the
// address alone.
func (c candidate) troubled() bool { return c.report.Message != "" }

// candidates are the hosts of a cluster that may hold its endpoint, by name.
func candidates(hosts []infrav1.Host, cluster, address string) []candidate {
	var found []candidate
	for i := range hosts {
		claim := hosts[i].Spec.Claim
		c := report(&hosts[i])
		if claim != nil && claim.ClusterName == cluster && c.report.Address == address {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b candidate) int { return strings.Compare(a.host, b.host) })
	return found
}

// report is all of a Host that the condition depends on.
func report(h *infrav1.Host) candidate {
	if h.Status.VirtualIP == nil {
		return candidate{}
	}
	return candidate{host: h.Name, report: *h.Status.VirtualIP, connected: host.Connected(h)}
}

// heldCondition is made of the newest reports: a host that was cut off still says
// in its last one that it holds the address.
func heldCondition(address string, all []candidate) metav1.Condition {
	condition := metav1.Condition{Type: infrav1.EndpointHeldCondition, Status: metav1.ConditionFalse}
	var holder *candidate
	var problems []string
	for i := range all {
		c := &all[i]
		if c.report.State == infrav1.VirtualIPHeld && (holder == nil || c.report.Term > holder.report.Term) {
			holder = c
		}
		if c.troubled() {
			problems = append(problems, fmt.Sprintf("%s: %s", c.host, c.report.Message))
		}
	}
	switch {
	case len(all) == 0:
		condition.Reason = infrav1.EndpointNoCandidateReason
		condition.Message = fmt.Sprintf("No host is to hold %s yet: the control plane has no machine with a host", address)
	case holder == nil:
		condition.Reason = infrav1.EndpointNotHeldReason
		condition.Message = fmt.Sprintf("No host holds %s, of %d that may", address, len(all))
	case !holder.connected:
		condition.Status, condition.Reason = metav1.ConditionUnknown, infrav1.EndpointHolderAwayReason
		condition.Message = fmt.Sprintf("Host %s held %s when its agent was last heard of", holder.host, address)
	case holder.troubled():
		condition.Reason = infrav1.EndpointContestedReason
		condition.Message = fmt.Sprintf("Host %s holds %s, and something is wrong with it", holder.host, address)
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.EndpointHeldReason
		condition.Message = fmt.Sprintf("Host %s holds %s", holder.host, address)
	}
	if len(problems) > 0 {
		condition.Message = strings.Join(append([]string{condition.Message}, problems...), "; ")
	}
	return condition
}
