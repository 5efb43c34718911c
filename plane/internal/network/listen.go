package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// lookupTimeout bounds the look-up of a host name.
const lookupTimeout = 10 * time.Second

// errLoopback means that no other machine reaches an address.
var errLoopback = errors.New("loopback")

// ListenError says why this machine cannot listen at an address, with what to do.
type ListenError struct {
	Host string
	Port uint16
	Err  error
}

func (e *ListenError) Error() string {
	at := net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	var unknown *net.DNSError
	switch {
	case errors.As(e.Err, &unknown):
		return fmt.Sprintf("--listen %s: %v: name an address of this machine, or have the name resolved here (/etc/hosts, DNS)", at, e.Err)
	case errors.Is(e.Err, errLoopback):
		return fmt.Sprintf("--listen %s: that is the loopback of this machine, which no other one reaches: `ip -brief address` shows the addresses that it has", at)
	case errors.Is(e.Err, unix.EADDRNOTAVAIL):
		return fmt.Sprintf("--listen %s: this machine has no such address: `ip -brief address` shows those that it has", at)
	case errors.Is(e.Err, unix.EADDRINUSE):
		return fmt.Sprintf("--listen %s: the port is busy: `ss -ltnp sport = :%d` shows who has it; choose another port, as in --listen %s", at, e.Port, net.JoinHostPort(e.Host, "PORT"))
	}
	return fmt.Sprintf("--listen %s: %v", at, e.Err)
}

func (e *ListenError) Unwrap() error { return e.Err }

// ListenAt listens at a host: an IP address, or a name, and then at each of its addresses
// that this machine has. It wants to be called in the machine's namespace. The error is a
// *ListenError.
func ListenAt(ctx context.Context, host string, port uint16) ([]*net.TCPListener, error) {
	var listeners []*net.TCPListener
	err := listenEach(ctx, host, port, func(at netip.AddrPort) error {
		l, err := listenTCP(ctx, at)
		if err == nil {
			listeners = append(listeners, l)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, closeAll(listeners))
	}
	return listeners, nil
}

// TryListenAt finds out whether ListenAt would succeed once those of the addresses that are
// held have been given back.
func TryListenAt(ctx context.Context, host string, port uint16, held []netip.AddrPort) error {
	return listenEach(ctx, host, port, func(at netip.AddrPort) error {
		err := tryListenTCP(ctx, at)
		if errors.Is(err, unix.EADDRINUSE) && heldAlone(ctx, at, held) {
			return nil
		}
		return err
	})
}

// listenEach calls listen for the addresses of a host that other machines may reach, one of
// which this machine must have.
func listenEach(ctx context.Context, host string, port uint16, listen func(netip.AddrPort) error) error {
	addresses, err := addressesOf(ctx, host)
	if err != nil {
		return &ListenError{host, port, err}
	}
	listens, missing := false, errLoopback
	for _, ip := range addresses {
		if ip.IsLoopback() {
			continue
		}
		err := listen(netip.AddrPortFrom(ip, port))
		switch {
		case err == nil:
			listens = true
		case errors.Is(err, unix.EADDRNOTAVAIL):
			missing = err // an address of another machine of that name
		default:
			return &ListenError{host, port, err}
		}
	}
	if !listens {
		return &ListenError{host, port, missing}
	}
	return nil
}

func listenTCP(ctx context.Context, at netip.AddrPort) (*net.TCPListener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

func tryListenTCP(ctx context.Context, at netip.AddrPort) error {
	l, err := listenTCP(ctx, at)
	if err != nil {
		return err
	}
	return l.Close()
}

// heldAlone says whether a busy address is so because of the held ones alone. One that stands
// for all is also busy when anybody listens at any.
func heldAlone(ctx context.Context, busy netip.AddrPort, held []netip.AddrPort) bool {
	if holds(held, busy) {
		return true
	}
	samePort := func(at netip.AddrPort) bool { return at.Port() == busy.Port() }
	if !busy.Addr().IsUnspecified() || !slices.ContainsFunc(held, samePort) {
		return false
	}
	present, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(present, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			return false
		}
		at := netip.AddrPortFrom(prefix.Addr().Unmap(), busy.Port())
		return !holds(held, at) && errors.Is(tryListenTCP(ctx, at), unix.EADDRINUSE)
	})
}

// holds says whether an address is among the held ones, or one of them stands for it.
func holds(held []netip.AddrPort, at netip.AddrPort) bool {
	return slices.ContainsFunc(held, func(h netip.AddrPort) bool {
		return h.Port() == at.Port() && (h.Addr().IsUnspecified() || h.Addr().Unmap() == at.Addr().Unmap())
	})
}

func closeAll(listeners []*net.TCPListener) error {
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

func addressesOf(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for i, ip := range found {
		found[i] = ip.Unmap()
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found), nil
}

// Gone returns those of the addresses, IP:PORT, that no interface of this machine has.
func Gone(addresses []string) ([]string, error) {
	present, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this machine: %w", err)
	}
	var gone []string
	for _, address := range addresses {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, fmt.Errorf("listen address: %w", err)
		}
		has := func(a net.Addr) bool {
			prefix, err := netip.ParsePrefix(a.String())
			return err == nil && prefix.Addr().Unmap() == at.Addr().Unmap()
		}
		if !at.Addr().IsUnspecified() && !slices.ContainsFunc(present, has) {
			gone = append(gone, at.Addr().String())
		}
	}
	return gone, nil
}
