package extensions

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/slipway-dev/slipway/plane/internal/network"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
)

// Dialer connects to extensions from a network namespace.
type Dialer struct {
	// Namespace is open at the namespace that extensions are called from, usually
	// the machine's.
	Namespace *os.File
	// Services are addresses, in the namespace of this process, of extensions that
	// run beside the plane, by host:port as it is in the URL.
	Services map[string]string
}

// DialContext connects to host:port. One of Services is connected to as that says.
// Otherwise the host may be a name, which is looked up
// from the same namespace; "127.0.0.1" and "localhost" are that of the machine.
// Addresses that no extension may have are refused after the look-up.
func (d Dialer) DialContext(ctx context.Context, transport, address string) (net.Conn, error) {
	if service, ok := d.Services[address]; ok {
		return (&net.Dialer{}).DialContext(ctx, transport, service)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, transport, address string) (net.Conn, error) {
		return network.DialIn(ctx, d.Namespace, transport, address)
	}}
	addresses, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	// Most extensions listen on IPv4 alone.
	slices.SortStableFunc(addresses, func(a, b netip.Addr) int { return a.Unmap().BitLen() - b.Unmap().BitLen() })
	for _, ip := range addresses {
		if err = sdkclient.RefuseLinkLocal(ip); err != nil {
			continue
		}
		var conn net.Conn
		if conn, err = network.DialIn(ctx, d.Namespace, transport, net.JoinHostPort(ip.Unmap().String(), port)); err == nil {
			return conn, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("host %s has no address", host)
	}
	return nil, err
}
