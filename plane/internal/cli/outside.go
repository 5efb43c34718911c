package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/serve"
)

// outsideListener, with a number from 0 on, is the name under which a socket for hosts on
// other machines is passed on into the namespace of the plane.
const outsideListener = "outside-"

const (
	// outsideConnections bounds the connections from other machines at each address; an agent
	// has two.
	outsideConnections = 4096
	// outsideDescriptors are those of the plane that one takes: the sockets of the client and
	// of the API server, with the one between them, and a pipe each way, through which the
	// kernel copies.
	outsideDescriptors = 7
)

// connectionsAt is how many connections each of so many addresses may have: anybody may make
// them, and half of the plane's descriptors are for all else that it does.
func connectionsAt(addresses int, descriptors uint64) int {
	const enough = 1 << 30 // the limit may be that there is none
	return max(1, min(outsideConnections, int(min(descriptors, enough))/2/outsideDescriptors/addresses))
}

// dialAPI connects to the API server from the namespace of the plane.
func dialAPI(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:6443")
}

// listenOutside opens the sockets for hosts on other machines, if the plane is for them, and
// adds them to files. It is called in the machine's namespace, where names are known.
func listenOutside(ctx context.Context, inst *instance.Instance, files map[string]*os.File) error {
	at, err := inst.ListensAt()
	if err != nil || at == nil {
		return err
	}
	listeners, err := network.ListenAt(ctx, at.Host, at.Port)
	if err != nil {
		return err
	}
	for i, l := range listeners {
		if files[outsideListener+strconv.Itoa(i)], err = l.File(); err != nil {
			return err
		}
	}
	return nil
}

// outsideOf takes over the sockets of listenOutside; nil for a plane without.
func outsideOf(inst *instance.Instance, files map[string]*os.File) (*serve.Outside, []*network.Forwarder, error) {
	at, err := inst.ListensAt()
	if err != nil || at == nil {
		return nil, nil, err
	}
	outside := &serve.Outside{Server: at.Server(), Names: append([]string{at.Host}, at.Names...), Listen: inst.Listen, TLSNames: inst.TLSNames}
	var forwarders []*network.Forwarder
	for i := 0; files[outsideListener+strconv.Itoa(i)] != nil; i++ {
		listener, err := net.FileListener(files[outsideListener+strconv.Itoa(i)])
		if err != nil {
			return nil, nil, fmt.Errorf("take over the socket for hosts on other machines: %w", err)
		}
		outside.Addresses = append(outside.Addresses, listener.Addr().String())
		forwarders = append(forwarders, &network.Forwarder{Listener: listener, Dial: dialAPI})
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, nil, fmt.Errorf("read how many files the plane may open: %w", err)
	}
	for _, f := range forwarders {
		f.Max = connectionsAt(len(forwarders), limit.Cur)
	}
	return outside, forwarders, nil
}
