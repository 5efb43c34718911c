package hostcluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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
	condition := heldCondition(spec.ControlPlaneEndpoint, all, s.hosts)
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
		if claim != nil && claim.ClusterName == cluster && sameAddress(c.report.Address, address) {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b candidate) int { return strings.Compare(a.host, b.host) })
	return found
}

// sameAddress compares addresses, of which one of IPv6 has many texts.
func sameAddress(a, b string) bool {
	left, errLeft := netip.ParseAddr(a)
	right, errRight := netip.ParseAddr(b)
	return a == b || errLeft == nil && errRight == nil && left.Unmap() == right.Unmap()
}

// report is all of a Host that the condition depends on.
func report(h *infrav1.Host) candidate {
	if h.Status.VirtualIP == nil {
		return candidate{}
	}
	return candidate{host: h.Name, report: *h.Status.VirtualIP, connected: host.Connected(h)}
}

// checks says whether the host checks what answers at the port of the endpoint. One that an
// earlier version made a node knows of no port.
func (c candidate) checks(port int32) bool { return c.report.Port == port }

// answers says whether the API server answers at the port that the host knows, as it found.
func (c candidate) answers() bool { return c.report.APIServer == infrav1.VirtualIPAPIServerAnswering }

// serves says whether the host is fit to hold the address: it is not when its API server is
// known not to answer at the port.
func (c candidate) serves() bool {
	return c.report.APIServer != infrav1.VirtualIPAPIServerNotAnswering
}

// heldCondition is made of the newest reports: a host that was cut off still says
// in its last one that it holds the address.
func heldCondition(endpoint clusterv1.APIEndpoint, all []candidate, hosts []infrav1.Host) metav1.Condition {
	condition := holderCondition(endpoint, all)
	var problems []string
	contested, twice := false, false
	for _, c := range all {
		problem := c.report.Message
		if c.report.DuplicateMACAddress != "" {
			var member bool
			problem, member = c.duplicate(all, hosts)
			contested, twice = contested || !member, twice || member && c.report.State == infrav1.VirtualIPHeld
		}
		if problem != "" {
			problems = append(problems, fmt.Sprintf("%s: %s", c.host, problem))
		}
	}
	switch {
	case condition.Status != metav1.ConditionFalse:
	case contested:
		condition.Reason = infrav1.EndpointContestedReason
	case twice:
		condition.Reason = infrav1.EndpointHeldTwiceReason
	}
	if len(problems) > 0 {
		condition.Message = strings.Join(append([]string{condition.Message}, problems...), "; ")
	}
	return condition
}

// holderOf returns the host that holds the address by the reports: of several, one whose agent is
// connected, then the one with the highest term; nil when none does. The last report of a host that is
// away may be of any age, and terms start again when somebody deletes the Lease.
func holderOf(all []candidate) *candidate {
	var holder *candidate
	for i := range all {
		c := &all[i]
		if c.report.State == infrav1.VirtualIPHeld && (holder == nil || c.connected && !holder.connected || c.connected == holder.connected && c.report.Term > holder.report.Term) {
			holder = c
		}
	}
	return holder
}

// holderCondition says which host holds the address, and whether the API server answers there.
func holderCondition(endpoint clusterv1.APIEndpoint, all []candidate) metav1.Condition {
	address, at := endpoint.Host, net.JoinHostPort(endpoint.Host, strconv.Itoa(int(endpoint.Port)))
	condition := metav1.Condition{Type: infrav1.EndpointHeldCondition, Status: metav1.ConditionFalse}
	holder := holderOf(all)
	switch {
	case len(all) == 0:
		condition.Reason = infrav1.EndpointNoCandidateReason
		condition.Message = fmt.Sprintf("No host is to hold %s yet: the control plane has no machine with a host", address)
	case holder == nil && !slices.ContainsFunc(all, candidate.serves):
		condition.Reason = infrav1.EndpointNotAnsweringReason
		condition.Message = fmt.Sprintf("No API server answers at %s, and no host holds %s, of %d that may", at, address, len(all))
	case holder == nil:
		condition.Reason = infrav1.EndpointNotHeldReason
		condition.Message = fmt.Sprintf("No host holds %s, of %d that may", address, len(all))
	case !holder.connected:
		condition.Status, condition.Reason = metav1.ConditionUnknown, infrav1.EndpointHolderAwayReason
		condition.Message = fmt.Sprintf("Host %s held %s when its agent was last heard of", holder.host, address)
	case !holder.checks(endpoint.Port):
		condition.Status, condition.Reason = metav1.ConditionUnknown, infrav1.EndpointNotCheckedReason
		condition.Message = fmt.Sprintf("Host %s holds %s, and does not check whether an API server answers at %s", holder.host, address, at)
	case !holder.answers():
		condition.Reason = infrav1.EndpointNotAnsweringReason
		condition.Message = fmt.Sprintf("Host %s holds %s, and no API server answers at %s yet", holder.host, address, at)
		if holder.troubled() {
			condition.Message = fmt.Sprintf("Host %s holds %s, and no API server answers at %s", holder.host, address, at)
		}
	case holder.troubled():
		condition.Reason = infrav1.EndpointContestedReason
		condition.Message = fmt.Sprintf("Host %s holds %s and reports a problem", holder.host, address)
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.EndpointHeldReason
		condition.Message = fmt.Sprintf("Host %s holds %s, and the API server answers at %s", holder.host, address, at)
	}
	return condition
}

// duplicate says which other machine has the address that a host found twice, and what to do.
// It reports whether that is a host of the same control plane.
func (c candidate) duplicate(all []candidate, hosts []infrav1.Host) (problem string, member bool) {
	mac, address := c.report.DuplicateMACAddress, c.report.Address
	var other *infrav1.Host
	for i := range hosts {
		if h := &hosts[i]; h.Name != c.host && hasMAC(h, mac) {
			other = h
		}
	}
	switch {
	case other == nil:
		return fmt.Sprintf("%s is in use by an unknown machine (MAC address %s): remove the address there, or choose an unused address for a new cluster", address, mac), false
	case slices.ContainsFunc(all, func(c candidate) bool { return c.host == other.Name }):
		return fmt.Sprintf("%s is in use by Host %s of this cluster: do not remove it by hand, the host that is not elected releases it within seconds; "+
			"if it does not, check slipway-agent on both hosts", address, other.Name), true
	case other.Spec.Claim != nil:
		return fmt.Sprintf("%s is in use by Host %s of Cluster %s: choose an unused address for the newer of the two clusters", address, other.Name, other.Spec.Claim.ClusterName), false
	default:
		return fmt.Sprintf("%s is in use by Host %s, which serves no cluster: remove the address from that host", address, other.Name), false
	}
}

// hasMAC says whether a host has a network interface with the MAC address.
func hasMAC(h *infrav1.Host, mac string) bool {
	if v := h.Status.VirtualIP; v != nil && strings.EqualFold(v.MACAddress, mac) {
		return true
	}
	return slices.ContainsFunc(h.Status.Inventory.Hardware.NetworkInterfaces, func(n infrav1.HostNetworkInterface) bool { return strings.EqualFold(n.MACAddress, mac) })
}
