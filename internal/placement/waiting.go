package placement

import infrav1 "github.com/slipway-dev/slipway/api/v1beta2"

// assignment gives hosts to machines that wait, one each, and to as many of them as possible.
// Machines and hosts are known by their indices in two lists.
type assignment struct {
	// fitting are the hosts that fit each machine.
	fitting [][]int
	// machines are those that got a host, by the host.
	machines map[int]int
}

// assign finds a maximum matching, by augmenting paths.
func (s *Snapshot) assign(waiting []*Requirements, hosts []*infrav1.Host) *assignment {
	a := &assignment{fitting: make([][]int, len(waiting)), machines: map[int]int{}}
	for i, machine := range waiting {
		for j := range hosts {
			if s.Judge(machine, hosts[j]).Fits() {
				a.fitting[i] = append(a.fitting[i], j)
			}
		}
		a.place(i, map[int]bool{})
	}
	return a
}

// place gives a machine a host, for which others may have to change theirs. It returns false,
// and changes nothing, when there is none. It ignores the hosts in seen.
func (a *assignment) place(machine int, seen map[int]bool) bool {
	for _, h := range a.fitting[machine] {
		if seen[h] {
			continue
		}
		seen[h] = true
		other, assigned := a.machines[h]
		if !assigned || a.place(other, seen) {
			a.machines[h] = machine
			return true
		}
	}
	return false
}

// needs reports whether fewer machines would get a host without this one.
func (a *assignment) needs(host int) bool {
	machine, assigned := a.machines[host]
	if !assigned {
		return false
	}
	delete(a.machines, host)
	if a.place(machine, map[int]bool{host: true}) {
		return false
	}
	a.machines[host] = machine
	return true
}

// Taken is how many of some hosts of the snapshot the machines that wait can claim at most: a host goes to
// one machine only.
func (s *Snapshot) Taken(waiting []*Requirements, hosts []*infrav1.Host) int {
	return len(s.assign(waiting, hosts).machines)
}
