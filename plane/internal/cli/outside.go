package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/bundleserver"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/pki"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// outsideListener, with a number from 0 on, is the name under which a socket for hosts on
// other machines is passed on into the namespace of the plane.
const outsideListener = "outside-"

// bundleListener is likewise that of a socket where they fetch host bundles.
const bundleListener = "bundles-"

// outsideConnections bounds the connections of identified clients on other machines at each address; an agent has
// two.
const outsideConnections = 4096

// connectionsAt is how many connections of identified clients each of so many addresses may have. Half of the plane's
// descriptors are for all else that it does. Such a connection takes two, its socket and that of what it asks the
// API server to reach, and a quarter as many that are not identified take one each.
func connectionsAt(addresses int, descriptors uint64) int {
	const enough = 1 << 30 // the limit may be that there is none
	return max(1, min(outsideConnections, int(min(descriptors, enough))/2/addresses*4/9))
}

// listenOutside opens the sockets for hosts on other machines, if the plane is for them, and
// adds them to files. It is called in the machine's namespace, where names are known.
func listenOutside(ctx context.Context, inst *instance.Instance, files map[string]*os.File) error {
	at, err := inst.ListensAt()
	if err != nil || at == nil {
		return err
	}
	for _, l := range []struct {
		prefix string
		port   uint16
	}{{outsideListener, at.Port}, {bundleListener, at.BundlePort()}} {
		listeners, err := network.ListenAt(ctx, at.Host, l.port)
		if err != nil && l.port != at.Port {
			err = fmt.Errorf("host bundles are served at the port after the one of --listen: %w", err)
		}
		if err != nil {
			return err
		}
		for i, listener := range listeners {
			if files[l.prefix+strconv.Itoa(i)], err = listener.File(); err != nil {
				return err
			}
		}
	}
	return nil
}

// bundlesOf are the host bundles of a plane, which it serves to hosts on other machines; none
// on a plane without. Local hosts have their software in the node bundle.
func bundlesOf(inst *instance.Instance, files map[string]*os.File) (bundleserver.Options, error) {
	o := bundleserver.DefaultOptions()
	at, err := inst.ListensAt()
	if err != nil || at == nil {
		return o, err
	}
	o.Dir, o.URL = inst.HostBundles(), at.BundleServer()
	// They verify it by the CA of the plane, which they know.
	authority := pki.New(pki.Options{Dir: inst.Path("pki")})
	o.CertFile, o.KeyFile, o.ClientCAFile = authority.ServingCertFile(), authority.ServingKeyFile(), authority.CACertFile()
	o.CAFile = ""
	for i := 0; files[bundleListener+strconv.Itoa(i)] != nil; i++ {
		listener, err := net.FileListener(files[bundleListener+strconv.Itoa(i)])
		if err != nil {
			return o, fmt.Errorf("take over the socket for host bundles: %w", err)
		}
		o.Listeners = append(o.Listeners, listener)
	}
	return o, nil
}

// outsideOf takes over the sockets of listenOutside; nil for a plane without.
func outsideOf(inst *instance.Instance, files map[string]*os.File) (*statedir.Outside, []network.Door, error) {
	at, err := inst.ListensAt()
	if err != nil || at == nil {
		return nil, nil, err
	}
	outside := &statedir.Outside{Server: at.Server(), Names: append([]string{at.Host}, at.Names...), Listen: inst.Listen, TLSNames: inst.TLSNames}
	var doors []network.Door
	for i := 0; files[outsideListener+strconv.Itoa(i)] != nil; i++ {
		listener, err := net.FileListener(files[outsideListener+strconv.Itoa(i)])
		if err != nil {
			return nil, nil, fmt.Errorf("take over the socket for hosts on other machines: %w", err)
		}
		outside.Addresses = append(outside.Addresses, listener.Addr().String())
		doors = append(doors, door(listener))
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, nil, fmt.Errorf("read how many files the plane may open: %w", err)
	}
	for i := range doors {
		doors[i].Max = connectionsAt(len(doors), limit.Cur)
	}
	return outside, doors, nil
}
