package up

import (
	"cmp"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// A plane that runs is not stopped for an address that another program has: neither when
// --listen names it, nor when an earlier `up` had written it down. The port may be the same.
func TestABusyAddressIsFoundBeforeThePlaneIsStopped(t *testing.T) {
	for name, c := range map[string]struct {
		socket, held string
		free         bool
	}{
		"another program has it": {"127.0.0.1:0", "192.0.2.10", false},
		"the plane has it":       {"0.0.0.0:0", "[::]", true},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", c.socket)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
			s := newSession(t)
			s.Instance.Config = instance.Config{Listen: "0.0.0.0:" + port, TLSNames: "plane.example"}
			runs(t, s, statedir.Status{PID: os.Getpid(), Outside: &statedir.Outside{Listen: "192.0.2.10:" + port, Addresses: []string{c.held + ":" + port}}})
			for check, err := range map[string]error{
				"--listen":  CheckListen(t.Context(), s.Instance.Dir, s.Instance.Config),
				"checkPort": s.checkPort(t.Context()),
			} {
				if c.free && err != nil || !c.free && !errors.Is(err, unix.EADDRINUSE) {
					t.Errorf("%s: %v, want it to be free: %t", check, err, c.free)
				}
			}
		})
	}
}

// Without slipway-lifecycle a plane would fail minutes later on a slow machine, as the last of
// what it starts.
func TestAMissingProgramIsFoundFirst(t *testing.T) {
	if os.Getuid() != 0 {
		rights.Skip(t, "a plane needs root")
	}
	s := newSession(t)
	s.Instance.Name, s.Options.NoHosts, s.Lifecycle = "planetest-up", true, filepath.Join(t.TempDir(), "slipway-lifecycle")
	s.Hosts = &localhost.Manager{StateDir: s.Instance.Dir, Name: s.Instance.Name}
	if err := s.checkMachine(t.Context(), nil); err == nil || !strings.Contains(err.Error(), s.Lifecycle+" is missing: it belongs beside slipway") {
		t.Errorf("got %v", err)
	}
}

// A plane of a service manager is not stopped: it would be started again at once, against the
// lock of `up`, and then in the background by `up` itself.
func TestAPlaneThatUpDidNotStartIsNotStopped(t *testing.T) {
	const before = "192.0.2.10:6443"
	outside := &statedir.Outside{Listen: before, Addresses: []string{before}}
	for name, c := range map[string]struct {
		listen  string
		status  statedir.Status
		refused bool
	}{
		"another address":              {"192.0.2.11:6443", statedir.Status{Foreground: true, Outside: outside}, true},
		"none":                         {"", statedir.Status{Foreground: true, Outside: outside}, true},
		"the first":                    {before, statedir.Status{Foreground: true}, true},
		"none, started by up":          {"", statedir.Status{Outside: outside}, false},
		"none, as before":              {"", statedir.Status{Foreground: true}, false},
		"no plane of whom it is known": {"", statedir.Status{PID: 1, Foreground: true, Outside: outside}, false},
	} {
		s := newSession(t)
		s.Instance.Config = instance.Config{Listen: c.listen}
		c.status.PID = cmp.Or(c.status.PID, os.Getpid())
		runs(t, s, c.status)
		for check, err := range map[string]error{
			"--listen":  CheckListen(t.Context(), s.Instance.Dir, s.Instance.Config),
			"checkPort": s.checkPort(t.Context()),
		} {
			var refused *ForegroundError
			switch {
			case !c.refused && err != nil:
				t.Errorf("%s, %s: %v", name, check, err)
			case c.refused && (!errors.As(err, &refused) || !strings.Contains(err.Error(), "slipway serve --listen="+c.listen+" ")):
				t.Errorf("%s, %s: %v, want it to be refused with the remedy", name, check, err)
			}
		}
	}
}

// A plane that listens where it was told goes on, also when the machine has lost the address.
func TestAPlaneThatListensAsChosenIsLeftAlone(t *testing.T) {
	s := newSession(t)
	s.Instance.Config = instance.Config{Listen: "192.0.2.10:6443"}
	runs(t, s, statedir.Status{PID: os.Getpid(), Outside: &statedir.Outside{Listen: "192.0.2.10:6443", Addresses: []string{"192.0.2.10:6443"}}})
	if err := s.checkPort(t.Context()); err != nil {
		t.Error(err)
	}
}
