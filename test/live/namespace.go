package live

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/vishvananda/netns"
)

// Inside runs fn on a thread in a network namespace, which ends with it. Sockets and files
// that fn opened stay good.
func Inside(namespace string, fn func() error) error {
	err := OnThread(func() error {
		ns, err := netns.GetFromName(namespace)
		if err != nil {
			return err
		}
		defer func() { _ = ns.Close() }()
		if err := netns.Set(ns); err != nil {
			return err
		}
		return fn()
	})
	if err != nil {
		return fmt.Errorf("in the network namespace %s: %w", namespace, err)
	}
	return nil
}

// OnThread runs fn on a thread that ends with it, whose namespaces it may change.
func OnThread(fn func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		result <- fn()
	}()
	return <-result
}

// DialFrom connects from inside a network namespace.
func DialFrom(namespace string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = Inside(namespace, func() error {
			c, err = (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, address)
			return err
		})
		return c, err
	}
}
