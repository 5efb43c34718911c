package placement

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Waiting returns the requirements of each machine that waits for a host. It omits machines that name
// their host, which is free for nobody else.
func Waiting(ctx context.Context, c client.Reader, machines []infrav1.HostMachine) ([]*Requirements, error) {
	var waiting []*Requirements
	for i := range machines {
		if machines[i].Spec.HostName != "" {
			continue
		}
		requirements, err := waits(ctx, c, &machines[i])
		if err != nil {
			return nil, err
		}
		if requirements != nil {
			waiting = append(waiting, requirements)
		}
	}
	return waiting, nil
}

// lacksHost says whether a machine is still to claim a host. One that adopts a Node takes the host
// of that, which is not free.
func lacksHost(m *infrav1.HostMachine) bool {
	return m.DeletionTimestamp.IsZero() && m.Spec.ProviderID == "" && m.Spec.Adopt.HostName == ""
}

// waits returns the requirements of a machine that waits for a host; nil for a machine that has one
// or will get none, as when it is being deleted.
func waits(ctx context.Context, c client.Reader, m *infrav1.HostMachine) (*Requirements, error) {
	if !lacksHost(m) {
		return nil, nil
	}
	cluster := &clusterv1.Cluster{}
	key := client.ObjectKey{Namespace: m.Namespace, Name: m.Labels[clusterv1.ClusterNameLabel]}
	if err := c.Get(ctx, key, cluster); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("get the Cluster of HostMachine %s: %w", m.Name, err)
	}
	owner, err := OwnerOf(ctx, c, m)
	if err != nil || owner == nil || Leaving(owner, cluster) != "" {
		return nil, err
	}
	request, err := RequestFor(ctx, c, m, owner, cluster)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	requirements, err := Parse(request)
	if err != nil {
		return nil, nil //nolint:nilerr // with malformed selectors it gets no host
	}
	return requirements, nil
}

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
