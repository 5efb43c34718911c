package agentrollout

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

const (
	// share of a failure domain that may update at once, 1 in so many.
	share = 4
	// maxAtOnce bounds what fetches the bundle at once, and what a bad release can hit
	// before its first failure is seen: large racks have more than four times as many hosts.
	maxAtOnce = 50
	// missingShare of the hosts that updated may be missing, 1 in so many: that many
	// lose power or network by chance while others update.
	missingShare = 10
)

// Make plans which hosts update now.
func Make(r Rollout) Plan {
	if why := notOfManager(r); why != "" {
		return Plan{Condition: condition(infrav1.AgentReleaseNotOfManagerReason, why)}
	}
	b := newPlanner(r)
	b.stop = b.stopped()
	if b.stop == "" {
		b.choose()
	}
	b.hold()
	b.conclude()
	return b.plan
}

// planner keeps the counts that each requested update changes.
type planner struct {
	rollout Rollout
	wanted  infrav1.HostAgentSpec
	plan    Plan
	domains []*domain
	// updating are connected, missing are not; the update of both was requested. waiting are not
	// requested yet.
	updating, missing, waiting, failed []Host
	// proven is how many run the very bundle that was requested of them.
	proven int
	// controlPlanes has the host of each that updates.
	controlPlanes map[types.NamespacedName]types.NamespacedName
	// stop is why no update is requested; empty when one may be.
	stop string
	// turn is whose turn it is; nil while the first host updates, and when no host can.
	turn *domain
}

// domain is a failure domain.
type domain struct {
	name                     string
	hosts, updated, updating int
	// missing counts in what began and not in what updates.
	missing int
	// asked is true once this bundle was requested of any of its hosts.
	asked bool
}

func newPlanner(r Rollout) *planner {
	b := &planner{rollout: r, wanted: infrav1.HostAgentSpec{Version: r.Release.Version, ReleaseDigest: r.Release.Digest}, controlPlanes: map[types.NamespacedName]types.NamespacedName{}}
	domains := map[string]*domain{}
	sorted := slices.SortedFunc(slices.Values(r.Hosts), func(x, y Host) int {
		return cmp.Or(cmp.Compare(x.Key.Namespace, y.Key.Namespace), cmp.Compare(x.Key.Name, y.Key.Name))
	})
	for _, h := range sorted {
		if !b.takesPart(h) {
			continue
		}
		d := domains[h.Domain]
		if d == nil {
			d = &domain{name: h.Domain}
			domains[h.Domain] = d
			b.domains = append(b.domains, d)
		}
		b.count(h, d)
	}
	slices.SortFunc(b.domains, func(x, y *domain) int {
		return cmp.Or(falseFirst(!x.begun(), !y.begun()), falseFirst(x.name == "", y.name == ""), cmp.Compare(x.name, y.name))
	})
	return b
}

// takesPart is false for an agent that somebody else updates, whose version cannot be
// compared, or that the bundle is not for.
func (b *planner) takesPart(h Host) bool {
	return h.Managed && !h.Deleting && host.Versioned(h.Agent.Version) != nil && slices.Contains(b.rollout.Release.Architectures, h.Architecture)
}

func (b *planner) count(h Host, d *domain) {
	b.plan.Hosts++
	d.hosts++
	d.asked = d.asked || h.Agent.Asked == b.wanted
	switch h.Agent.State(b.wanted) {
	case host.AgentUpdated:
		b.plan.Updated++
		d.updated++
		if h.Agent.Asked == b.wanted {
			b.proven++
		}
	case host.AgentUpdateFailed:
		b.plan.Failed++
		b.failed = append(b.failed, h)
	case host.AgentUpdating:
		b.occupy(h, d)
	default:
		b.waiting = append(b.waiting, h)
	}
}

// occupy counts a host whose update was requested.
func (b *planner) occupy(h Host, d *domain) {
	if h.ControlPlane != (types.NamespacedName{}) {
		b.controlPlanes[h.ControlPlane] = h.Key
	}
	if !h.Connected {
		b.missing = append(b.missing, h)
		d.missing++
		return
	}
	b.updating = append(b.updating, h)
	d.updating++
}

// begun says whether the failure domain is one to finish before others begin. In one that
// is finished no host is left to update.
func (d *domain) begun() bool {
	return d.updating+d.missing+d.updated > 0
}

// atOnce is how many hosts of the failure domain may update at once.
func (d *domain) atOnce() int { return max(1, min(d.hosts/share, maxAtOnce)) }

// tolerable is how many hosts may be missing: one while nothing is proven, so that the loss
// of the first host does not end the rollout.
func (b *planner) tolerable() int { return max(1, b.proven/missingShare) }

// stopped says why no update is requested at all.
func (b *planner) stopped() string {
	switch {
	case len(b.failed) > 0:
		return "the update failed on " + b.failed[0].Key.String()
	case ptr.Deref(b.rollout.Release.Paused, false):
		return "spec.paused holds the rollout"
	case len(b.missing) > b.tolerable():
		return fmt.Sprintf("%d hosts that were asked are not connected since", len(b.missing))
	}
	return ""
}

// choose requests as many updates as the limits allow.
func (b *planner) choose() {
	free := 0
	if b.first() {
		free = 1 - len(b.updating)
	} else if b.turn = b.next(); b.turn != nil {
		free = b.turn.atOnce() - b.turn.updating
	}
	order := map[string]int{}
	for i, d := range b.domains {
		order[d.name] = i
	}
	candidates := slices.SortedStableFunc(slices.Values(b.waiting), func(x, y Host) int {
		if b.first() {
			if c := falseFirst(x.Claimed, y.Claimed); c != 0 {
				return c
			}
		}
		return cmp.Or(falseFirst(x.Busy, y.Busy), cmp.Compare(order[x.Domain], order[y.Domain]))
	})
	for _, h := range candidates {
		if free <= 0 {
			return
		}
		if b.hindrance(h) == "" && (b.turn == nil || b.turn.name == h.Domain) {
			b.ask(h, b.domains[order[h.Domain]])
			free--
		}
	}
}

// first says whether no host has shown yet that the bundle works.
func (b *planner) first() bool { return b.proven == 0 }

// next is the failure domain whose turn it is; nil when two have hosts that update, as when
// one that was missing returns, or when no host can update.
func (b *planner) next() *domain {
	can := map[string]bool{}
	for _, h := range b.waiting {
		can[h.Domain] = can[h.Domain] || b.hindrance(h) == ""
	}
	var busy, able []*domain
	for _, d := range b.domains {
		if d.updating > 0 {
			busy = append(busy, d)
		}
		if can[d.name] {
			able = append(able, d)
		}
	}
	switch {
	case len(busy) == 1:
		return busy[0]
	case len(busy) == 0 && len(able) > 0:
		return able[0]
	}
	return nil
}

// hindrance is why a host cannot update, in any turn.
func (b *planner) hindrance(h Host) string {
	other, taken := b.controlPlanes[h.ControlPlane]
	switch {
	case !h.Connected:
		return "its agent is not connected"
	case !h.Approved:
		return "it is not approved"
	case h.Paused:
		return "it is paused"
	case taken:
		return fmt.Sprintf("%s of the same control plane goes first", other)
	}
	return ""
}

func (b *planner) ask(h Host, d *domain) {
	b.plan.Ask = append(b.plan.Ask, h.Key)
	b.plan.Begins = !d.asked
	b.occupy(h, d)
}

func falseFirst(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	default:
		return 1
	}
}
