package placement

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Snapshot is the input of placement: the hosts of a namespace at one moment, the leftovers there of
// the machines that had them, and who waits for one of them by name. It does not change, so it
// always gives the same verdicts.
type Snapshot struct {
	// Hosts may be those of a cache: they must not be changed.
	Hosts []*infrav1.Host
	// namedBy are the HostMachines that wait for a host by spec.hostName, and can have no other, by
	// the name of the host.
	namedBy map[string]string
	// identities counts the hosts with each identity.
	identities map[string]int
	formers    *formers
	// claiming are the hosts that this process is claiming for other machines.
	claiming map[*infrav1.Host]bool
}

// Read reads the snapshot of a namespace. From a cache its hosts are the cache's own objects, since
// thousands would be copied for each claim.
func Read(ctx context.Context, c client.Reader, namespace string) (*Snapshot, error) {
	list := &infrav1.HostList{}
	if err := c.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	hosts := make([]*infrav1.Host, 0, len(list.Items))
	for i := range list.Items {
		hosts = append(hosts, &list.Items[i])
	}
	s := Of(hosts...)
	var err error
	if s.formers, err = formersOf(ctx, c, namespace); err != nil {
		return nil, err
	}
	for _, h := range hosts {
		if s.namedBy[h.Name], err = namedBy(ctx, c, s.formers.naming[h.Name], h); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Of is a snapshot of hosts that no machine had before, and that none names.
func Of(hosts ...*infrav1.Host) *Snapshot {
	s := &Snapshot{Hosts: hosts, namedBy: map[string]string{}, identities: map[string]int{}, formers: &formers{}}
	for _, h := range hosts {
		for _, id := range identities(h) {
			s.identities[id]++
		}
	}
	return s
}

// Claiming is the snapshot with hosts that this process is claiming for other machines.
func (s *Snapshot) Claiming(claiming func(*infrav1.Host) bool) *Snapshot {
	with := *s
	with.claiming = map[*infrav1.Host]bool{}
	for _, h := range s.Hosts {
		with.claiming[h] = claiming(h)
	}
	return &with
}

// Former has the leftovers of the machines that had a host before its current claim.
func (s *Snapshot) Former(h *infrav1.Host) Former { return s.formers.of(h) }

// namedBy returns the first of the machines that name a host which can claim it once it is free;
// empty when there is none. A machine that never can reserves nothing.
func namedBy(ctx context.Context, c client.Reader, machines []*infrav1.HostMachine, h *infrav1.Host) (string, error) {
	for _, m := range machines {
		requirements, err := waits(ctx, c, m)
		if err != nil {
			return "", err
		}
		if requirements != nil && requirements.Matches(h) {
			return m.Name, nil
		}
	}
	return "", nil
}
