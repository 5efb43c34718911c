package placement

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// Request is what a machine requires of a host.
type Request struct {
	// Version is the Kubernetes version to run, for example v1.36.3. Any host
	// fits when it is empty.
	Version string
	// Release is the KubernetesRelease of Version, which hosts whose software is Managed
	// install; nil without one.
	Release *infrav1.KubernetesReleaseSpec
	// FailureDomains are the domains allowed; all are when it is empty.
	FailureDomains []string
	// FailureDomainLabel is the label that names a host's domain;
	// Host.spec.failureDomain does when it is empty.
	FailureDomainLabel string
	// Spread is the failure domain a pool chose for the machine, to keep its members
	// apart; nil when it chose none.
	Spread *infrav1.SpreadDomain
	// HostName pins the machine to one host.
	HostName string
	// ClusterName is the Cluster of the machine, MachinePool the pool it is a member
	// of; empty for none. They say who may delete the machine's Node: see Former.
	ClusterName, MachinePool string
	// Placement holds the selector and the preferences.
	Placement infrav1.Placement
	// Ahead are the requests of the machines that the control plane of the same Cluster lacks. Choose
	// reserves as many hosts for them as they can claim.
	Ahead []Request
}

// Former has the leftovers of the machines that had a host before. Cluster API deletes
// their Nodes at last, by name: the Node of the next machine would go instead.
type Former struct {
	// Machine is a HostMachine or Machine that names the host for a claim that it does
	// not carry, for example "Machine workers-1"; empty when there is none.
	Machine string
	// Pools are the MachinePools that name a Node of the host in status.nodeRefs.
	Pools []PoolReference
}

// PoolReference names a MachinePool of the namespace and its Cluster.
type PoolReference struct{ Cluster, Name string }

// Reason says why a machine of a cluster must wait for the leftovers; empty when it need
// not. Its own MachinePool deletes no Node whose providerID it lists, which the machine
// waits for before it bootstraps. A MachinePool of another cluster deletes Nodes there.
func (f Former) Reason(cluster, machinePool string) string {
	if f.Machine != "" {
		return fmt.Sprintf("its former %s is still there", f.Machine)
	}
	for _, pool := range f.Pools {
		if pool.Cluster == cluster && pool.Name != machinePool {
			return fmt.Sprintf("MachinePool %s still names its former Node", pool.Name)
		}
	}
	return ""
}

// NamedBy says whether a MachinePool names a Node of the host.
func (f Former) NamedBy(cluster, machinePool string) bool {
	return slices.Contains(f.Pools, PoolReference{cluster, machinePool})
}

// Verdict is what a host is to a request.
type Verdict struct {
	Host *infrav1.Host
	// Reason why the host does not fit; empty when it does.
	Reason string
	// Remedy is the command that makes the host fit; empty when there is none.
	Remedy string
	// InDomain is true in the failure domain the pool chose, and when it chose none.
	InDomain bool
	// Score is the sum of the weights of spec.preferred that match.
	Score int32
	// Install is true where the agent has to install the version first.
	Install bool
	// OldCgroups is true where the kubelet of the version serves only if its configuration allows for cgroup v1.
	OldCgroups bool

	tie []byte
}

// Fits says whether the machine could claim the host.
func (v Verdict) Fits() bool { return v.Reason == "" }

// Result has a verdict for each host of a snapshot.
type Result struct {
	// Ranked are the hosts that fit, best first.
	Ranked []Verdict
	// Rejected are all the others, by name.
	Rejected []Verdict
	// Reserved is the number of rejected hosts that fit and that the control plane needs.
	Reserved int
}

// Requirements are a request whose selectors were parsed.
type Requirements struct {
	request  Request
	selector labels.Selector
	// byHardware says that selector requires labels that come with the agent's report.
	byHardware bool
	scores     []score
	// ahead are the requirements of Request.Ahead.
	ahead []*Requirements
}

// duplicate is the reason of hosts that share an identity.
const duplicate = "same key or machine-id as another host"

// notReported is the reason of hosts of which nobody knows what they are.
const notReported = "agent has not reported its inventory yet"

// notSelected is the reason of hosts without the labels that a machine requires.
const notSelected = "labels do not match spec.hostSelector"

// Claimed is the reason of hosts that another machine has.
const Claimed = "claimed"

// notApproved is the reason of hosts that wait for an approval.
const notApproved = "not approved"

// Reasons of hosts that somebody keeps back, and of those that are away.
const (
	unschedulable = "unschedulable"
	evacuated     = "evacuated"
	notConnected  = "agent not connected"
)

type score struct {
	weight   int32
	selector labels.Selector
}

// Parse parses the selectors of a request. It fails when one is malformed.
func Parse(r Request) (*Requirements, error) {
	c := &Requirements{request: r, selector: labels.Everything()}
	if r.Placement.HostSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(r.Placement.HostSelector)
		if err != nil {
			return nil, fmt.Errorf("spec.hostSelector: %w", err)
		}
		c.selector = selector
		requirements, _ := selector.Requirements()
		c.byHardware = slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return host.IsHardwareLabel(r.Key()) })
	}
	for i, preferred := range r.Placement.Preferred {
		selector, err := metav1.LabelSelectorAsSelector(preferred.HostSelector)
		if err != nil {
			return nil, fmt.Errorf("spec.preferred[%d].hostSelector: %w", i, err)
		}
		c.scores = append(c.scores, score{preferred.Weight, selector})
	}
	for _, ahead := range r.Ahead {
		// With malformed selectors a machine gets no host.
		if parsed, err := Parse(ahead); err == nil {
			c.ahead = append(c.ahead, parsed)
		}
	}
	return c, nil
}

// Rank judges all hosts and ranks those that fit: those with cgroup v1 last where the kubelet refuses that by default, of
// the others those in the domain the pool chose first, then by score, then those that have the version, then by digest. It reserves hosts for Request.Ahead.
func (s *Snapshot) Rank(r *Requirements) Result {
	var result Result
	first := s.assign(r.ahead, s.Hosts)
	for i, h := range s.Hosts {
		v := s.Judge(r, h)
		if v.Fits() && first.needs(i) {
			result.Reserved++
			v.Reason = fmt.Sprintf("reserved for the control plane, which needs %d more", len(r.ahead))
		}
		if v.Fits() {
			v.tie = tie(h)
			result.Ranked = append(result.Ranked, v)
		} else {
			result.Rejected = append(result.Rejected, v)
		}
	}
	slices.SortFunc(result.Ranked, func(a, b Verdict) int {
		return cmp.Or(trueFirst(!a.OldCgroups, !b.OldCgroups), trueFirst(a.InDomain, b.InDomain), cmp.Compare(b.Score, a.Score), trueFirst(!a.Install, !b.Install), bytes.Compare(a.tie, b.tie))
	})
	slices.SortFunc(result.Rejected, func(a, b Verdict) int { return cmp.Compare(a.Host.Name, b.Host.Name) })
	return result
}

// tie orders hosts that fit equally well. A machine chooses its name, and one that is called first
// would get the bootstrap data of each control plane: the UID in the digest is the API server's.
func tie(h *infrav1.Host) []byte {
	sum := sha256.Sum256([]byte(string(h.UID) + "\n" + h.Spec.HostID + "\n" + h.Namespace + "/" + h.Name))
	return sum[:]
}

// Judge says whether a host fits, and how well. The host may have been read after the snapshot:
// what it shares with other hosts, and leftovers of its previous machines, are the snapshot's.
func (s *Snapshot) Judge(r *Requirements, h *infrav1.Host) Verdict {
	v := Verdict{Host: h, Reason: s.reject(r, h)}
	if !v.Fits() {
		v.Remedy = remedy(h, v.Reason)
		return v
	}
	v.InDomain, v.Score, v.Install = r.inDomain(h), r.score(h), r.offer(h) == host.OfferInstallable
	v.OldCgroups = host.NeedsOtherCgroups(h, r.request.Version)
	return v
}

// reject returns why a host doesn't fit, or "" when it does. The machine's requirements come first,
// so that a host of another kind is not reported as busy.
func (s *Snapshot) reject(c *Requirements, h *infrav1.Host) string {
	r := c.request
	domain := host.FailureDomain(h, r.FailureDomainLabel)
	switch {
	case r.HostName != "" && h.Name != r.HostName:
		return fmt.Sprintf("spec.hostName asks for %s", r.HostName)
	case !c.selector.Matches(host.Labels(h)):
		return c.rejectLabels(h)
	case len(r.FailureDomains) > 0 && !slices.Contains(r.FailureDomains, domain):
		return fmt.Sprintf("not in failure domain %s", strings.Join(r.FailureDomains, " or "))
	case r.Spread != nil && ptr.Deref(r.Spread.Hard, false) && !c.inDomain(h):
		return fmt.Sprintf("not in failure domain %s, which spec.spread asks for", r.Spread.Value)
	}
	if reason := c.rejectCapacity(h); reason != "" {
		return reason
	}
	if why := host.Unavailable(h, host.Connected(h)); why != (host.State{}) {
		return rejection(h, why)
	}
	if s.claiming[h] {
		return Claimed
	}
	if machine := s.namedBy[h.Name]; machine != "" && r.HostName != h.Name {
		return fmt.Sprintf("reserved for HostMachine %s, which names it in spec.hostName", machine)
	}
	// The condition that says so may come later than the host's report.
	if slices.ContainsFunc(identities(h), func(id string) bool { return s.identities[id] > 1 }) {
		return duplicate
	}
	if reason := s.Former(h).Reason(r.ClusterName, r.MachinePool); reason != "" {
		return reason
	}
	return c.rejectVersion(h)
}

// rejectLabels does not say of a free host that it is of another kind while nobody knows.
func (c *Requirements) rejectLabels(h *infrav1.Host) string {
	if c.byHardware && h.Spec.Claim == nil && !host.InventoryReported(h) {
		return notReported
	}
	return notSelected
}

// rejectCapacity says of which resource a host has too little, the first by name. Of a free
// host that has not told, host.Unavailable says so.
func (c *Requirements) rejectCapacity(h *infrav1.Host) string {
	if !host.InventoryReported(h) {
		return ""
	}
	least := c.request.Placement.MinCapacity
	for _, name := range slices.Sorted(maps.Keys(least)) {
		asked, has := least[name], h.Status.Capacity[name]
		if has.Cmp(asked) < 0 {
			return fmt.Sprintf("less %s than the %s of spec.minCapacity", name, asked.String())
		}
	}
	return ""
}

// identities are what no other host may have.
func identities(h *infrav1.Host) []string {
	var ids []string
	if h.Spec.HostID != "" {
		ids = append(ids, "key/"+h.Spec.HostID)
	}
	if id := h.Status.Inventory.MachineID; id != "" {
		ids = append(ids, "machine-id/"+id)
	}
	return ids
}

func (c *Requirements) inDomain(h *infrav1.Host) bool {
	spread := c.request.Spread
	return spread == nil || host.FailureDomain(h, spread.Key) == spread.Value
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// offer is how a host can provide a version; every host provides a version that is not required.
func (c *Requirements) offer(h *infrav1.Host) host.Offer {
	if c.request.Version == "" {
		return host.OfferInstalled
	}
	return host.OfferOf(h, c.request.Version, c.request.Release)
}

func (c *Requirements) rejectVersion(h *infrav1.Host) string {
	switch {
	case c.offer(h) != host.OfferNone:
		return ""
	case host.Managed(h):
		return fmt.Sprintf("Kubernetes %s not offered: neither installed nor in a KubernetesRelease for %s", c.request.Version, h.Status.Inventory.Architecture)
	case len(h.Status.Inventory.KubernetesVersions) == 0:
		return "Kubernetes versions not reported yet"
	default:
		return fmt.Sprintf("Kubernetes %s not installed", c.request.Version)
	}
}

// rejection is short on purpose: it stands beside those of all other hosts.
func rejection(h *infrav1.Host, why host.State) string {
	switch why.Reason {
	case infrav1.HostAgentNotConnectedReason:
		return notConnected
	case infrav1.HostUnschedulableReason:
		return unschedulable
	case infrav1.HostEvacuateReason:
		return evacuated
	case infrav1.HostAssignedReason:
		return "assigned to another namespace"
	case infrav1.HostDuplicateIdentityReason:
		return duplicate
	case infrav1.HostAgentTooOldReason:
		return "agent too old"
	case infrav1.HostAgentTooNewReason:
		return "agent too new"
	case infrav1.HostDeletingReason:
		return "being deleted"
	case infrav1.HostNotApprovedReason:
		return notApproved
	case infrav1.HostApprovalDeniedReason:
		return "approval denied"
	case infrav1.HostInventoryNotReportedReason:
		return notReported
	}
	if h.Spec.Claim != nil && why.Phase != infrav1.HostPhaseResetting && why.Phase != infrav1.HostPhaseQuarantined {
		return Claimed
	}
	return strings.ToLower(string(why.Phase))
}

// remedy is for hosts that an operator's command makes fit, so far as the first reason tells.
func remedy(h *infrav1.Host, reason string) string {
	switch reason {
	case notApproved:
		return "approve with: " + host.ApproveCommand(h)
	case unschedulable, evacuated:
		return fmt.Sprintf("release with: slipway host uncordon %s -n %s", h.Name, h.Namespace)
	case notConnected:
		return fmt.Sprintf("see why with: slipway host describe %s -n %s", h.Name, h.Namespace)
	}
	return ""
}

func (c *Requirements) score(h *infrav1.Host) int32 {
	var sum int32
	for _, s := range c.scores {
		if s.selector.Matches(host.Labels(h)) {
			sum += s.weight
		}
	}
	return sum
}
