package pool

import "slices"

// spread chooses failure domains for new members.
type spread struct {
	domains []Domain
	load    map[string]int
	hard    bool
}

// newSpread counts the members that will stay: outdated ones don't, and would push
// their own replacements out of their domain.
func (b *planner) newSpread() *spread {
	s := &spread{domains: slices.Clone(b.pool.Domains), load: map[string]int{}, hard: b.pool.HardSpread}
	slices.SortFunc(s.domains, func(x, y Domain) int {
		if x.Name < y.Name {
			return -1
		}
		return 1
	})
	for _, m := range b.staying {
		if b.gone[m.Name] || !b.keeps(m) {
			continue
		}
		s.count(m, 1)
	}
	return s
}

// count adds a member, or takes it away with n = -1. One that waits for a host will take
// one of its domain.
func (s *spread) count(m Member, n int) {
	s.load[m.Domain] += n
	if !m.Claimed {
		s.take(m.Domain, n)
	}
}

func (s *spread) take(name string, n int) {
	for i := range s.domains {
		if s.domains[i].Name == name {
			s.domains[i].Free -= n
		}
	}
}

// next returns the domain for one more member: the one with the fewest, of equal
// ones that with the most free hosts. A soft spread passes over domains without a
// free host. It returns "" when there is no domain.
func (s *spread) next() string {
	best := s.best()
	if best == "" {
		return ""
	}
	s.load[best]++
	s.take(best, 1)
	return best
}

func (s *spread) best() string {
	name, free, someFree := "", 0, false
	for _, d := range s.domains {
		hasFree := d.Free > 0
		better := name == "" || s.load[d.Name] < s.load[name] || (s.load[d.Name] == s.load[name] && d.Free > free)
		if !s.hard && hasFree != someFree && name != "" {
			better = hasFree
		}
		if better {
			name, free, someFree = d.Name, d.Free, hasFree
		}
	}
	return name
}

// replacements returns a function that tells which failure domain a hard spread chooses for
// what replaces a member, with the hosts that are free there and that no other member waits
// for. It is nil when a host of any domain will do.
func replacements(p Pool) func(member string) Domain {
	if !p.HardSpread || len(p.Domains) == 0 {
		return nil
	}
	b := newPlanner(p)
	s := b.newSpread()
	counted := map[string]Member{}
	for _, m := range b.staying {
		if b.keeps(m) {
			counted[m.Name] = m
		}
	}
	return func(member string) Domain {
		if m, found := counted[member]; found {
			s.count(m, -1)
			defer s.count(m, 1)
		}
		best := s.best()
		return s.domains[slices.IndexFunc(s.domains, func(d Domain) bool { return d.Name == best })]
	}
}

// move gives members that wait for a host in a domain without free ones another
// domain, if the numbers stay as even: else a hard spread could wait for ever.
func (b *planner) move() {
	if len(b.pool.Domains) == 0 || !b.pool.HardSpread || b.pool.Revision == "" {
		return
	}
	s := b.newSpread()
	free := slices.DeleteFunc(slices.Clone(s.domains), func(d Domain) bool { return d.Free <= 0 })
	for _, m := range b.staying {
		if b.gone[m.Name] || m.Claimed || !b.keeps(m) {
			continue
		}
		own := slices.IndexFunc(b.pool.Domains, func(d Domain) bool { return d.Name == m.Domain })
		if own >= 0 && b.pool.Domains[own].Free > 0 {
			continue
		}
		target := (&spread{domains: free, load: s.load, hard: true}).best()
		// A domain that is gone from the hosts is left whatever the numbers are.
		if target == "" || (own >= 0 && s.load[target] >= s.load[m.Domain]) {
			continue
		}
		b.step(Step{Action: ActionMove, Name: m.Name, Domain: target, Reason: "no host is free in failure domain " + orUnknown(m.Domain)})
		return
	}
}
