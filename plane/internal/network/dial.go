package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
)

// MachineDialer connects to host:port from another network namespace, usually the machine's
// (see Inherited), in which host names are looked up, too.
type MachineDialer struct {
	// Namespace is open at the namespace.
	Namespace *os.File
	// Refuse says why an address must not be connected to, nil for one that may be. It is
	// asked after the look-up, and what it let pass is what is connected to.
	Refuse func(netip.Addr) error
}

// DialContext connects to the first address of the host that is not refused and answers.
func (d MachineDialer) DialContext(ctx context.Context, transport, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, transport, address string) (net.Conn, error) {
		return DialIn(ctx, d.Namespace, transport, address)
	}}
	addresses, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	// Most servers listen on IPv4 alone.
	slices.SortStableFunc(addresses, func(a, b netip.Addr) int { return a.Unmap().BitLen() - b.Unmap().BitLen() })
	for _, ip := range addresses {
		if err = d.Refuse(ip.Unmap()); err != nil {
			continue
		}
		var conn net.Conn
		if conn, err = DialIn(ctx, d.Namespace, transport, net.JoinHostPort(ip.Unmap().String(), port)); err == nil {
			return conn, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("host %s has no address", host)
	}
	return nil, err
}
