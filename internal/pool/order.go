package pool

import (
	"cmp"
	"hash/fnv"
	"slices"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// removalOrder sorts members by who is to go first: who was marked; who costs least
// to lose (no host, not provisioned, not available); who is outdated; who stands in
// the fullest failure domain; and then by the policy. The name decides at last, so
// that the order never depends on chance.
func (b *planner) removalOrder(members []Member) []Member {
	sorted := slices.SortedFunc(slices.Values(members), func(x, y Member) int {
		return cmp.Or(b.compareCost(x, y), b.comparePolicy(x, y), cmp.Compare(x.Name, y.Name))
	})
	if len(b.pool.Domains) == 0 {
		return sorted
	}
	load := map[string]int{}
	for domain, n := range b.load {
		load[domain] = n
	}
	var balanced []Member
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && b.compareCost(sorted[0], sorted[n]) == 0 {
			n++
		}
		balanced = append(balanced, fullestFirst(sorted[:n], load)...)
		sorted = sorted[n:]
	}
	return balanced
}

// fullestFirst takes each member from the domain that is then the fullest. Within a
// domain, and between domains that are equally full, the order stays.
func fullestFirst(members []Member, load map[string]int) []Member {
	queues := map[string][]int{}
	var domains []string
	for i, m := range members {
		if queues[m.Domain] == nil {
			domains = append(domains, m.Domain)
		}
		queues[m.Domain] = append(queues[m.Domain], i)
	}
	order := make([]Member, 0, len(members))
	for len(order) < len(members) {
		next := slices.MinFunc(domains, func(x, y string) int {
			return cmp.Or(cmp.Compare(load[y], load[x]), cmp.Compare(queues[x][0], queues[y][0]))
		})
		order = append(order, members[queues[next][0]])
		load[next]--
		if queues[next] = queues[next][1:]; len(queues[next]) == 0 {
			domains = slices.DeleteFunc(domains, func(d string) bool { return d == next })
		}
	}
	return order
}

func (b *planner) compareCost(x, y Member) int {
	return cmp.Or(
		falseFirst(!x.Marked, !y.Marked),
		falseFirst(x.Claimed, y.Claimed),
		falseFirst(x.Provisioned, y.Provisioned),
		falseFirst(x.Available, y.Available),
		falseFirst(b.upToDate(x), b.upToDate(y)),
	)
}

func (b *planner) comparePolicy(x, y Member) int {
	switch b.pool.Strategy.DeletePolicy {
	case infrav1.DeletePolicyOldest:
		return x.Created.Compare(y.Created)
	case infrav1.DeletePolicyRandom:
		return cmp.Compare(shuffled(x.Name), shuffled(y.Name))
	default:
		return y.Created.Compare(x.Created)
	}
}

// shuffled gives names an order that has nothing to do with age or alphabet and is
// the same in every plan: real chance would change its mind between two reconciles.
func shuffled(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64()
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
