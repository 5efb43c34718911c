package serve

import (
	"context"
	"net"
	"net/netip"

	"github.com/slipway-dev/slipway/plane/internal/network"
)

// DialOutbound returns what connects to the API server of a cluster, wherever it is: directly in the
// plane's network, by machine elsewhere.
func DialOutbound(machine network.MachineDialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, transport, address string) (net.Conn, error) {
		if at, err := netip.ParseAddrPort(address); err == nil && network.Contains(at.Addr().Unmap()) {
			return (&net.Dialer{}).DialContext(ctx, transport, address)
		}
		return machine.DialContext(ctx, transport, address)
	}
}
