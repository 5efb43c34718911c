package rollout

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
		s.load[m.Domain]++
		if !m.Claimed {
			s.take(m.Domain)
		}
	}
	return s
}

func (s *spread) take(name string) {
	for i := range s.domains {
		if s.domains[i].Name == name {
			s.domains[i].Free--
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
	s.take(best)
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
