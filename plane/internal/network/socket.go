package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
)

// ListenIn opens a listener in the network namespace behind ns, usually the
// machine's (see Inherited). The address must be numeric.
func ListenIn(ctx context.Context, ns *os.File, network, address string) (net.Listener, error) {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return nil, fmt.Errorf("listen address: %w", err)
	}
	var l net.Listener
	err := inNamespaceFD(int(ns.Fd()), func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(ctx, network, address)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// DialIn connects to a numeric address from inside the network namespace behind
// ns, usually the machine's (see Inherited).
func DialIn(ctx context.Context, ns *os.File, network, address string) (net.Conn, error) {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return nil, fmt.Errorf("dial address: %w", err)
	}
	var c net.Conn
	err := inNamespaceFD(int(ns.Fd()), func() (err error) {
		c, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// DialContext connects to a numeric address from inside the namespace of the
// instance. The caller may be in any namespace.
func DialContext(ctx context.Context, name, network, address string) (net.Conn, error) {
	// A host name would be looked up by other goroutines, on threads outside of the namespace.
	if _, err := netip.ParseAddrPort(address); err != nil {
		return nil, fmt.Errorf("dial address: %w", err)
	}
	var c net.Conn
	err := inNamespace(Path(name), func() (err error) {
		c, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Dialer is DialContext for one instance, in the form that http.Transport and
// client-go's rest.Config take.
func Dialer(name string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return DialContext(ctx, name, network, address)
	}
}
