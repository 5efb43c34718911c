package capi

import (
	"context"
	"net"
	"os"

	"github.com/slipway-dev/slipway/plane/internal/network"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
)

// ExtensionDialer connects to extensions from a network namespace.
type ExtensionDialer struct {
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
func (d ExtensionDialer) DialContext(ctx context.Context, transport, address string) (net.Conn, error) {
	if service, ok := d.Services[address]; ok {
		return (&net.Dialer{}).DialContext(ctx, transport, service)
	}
	return network.MachineDialer{Namespace: d.Namespace, Refuse: sdkclient.RefuseLinkLocal}.DialContext(ctx, transport, address)
}
