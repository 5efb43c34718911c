package run

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/vip"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

func server(t *testing.T, last time.Time) healthServer {
	t.Helper()
	j := journal.InMemory()
	err := j.Update(func(s *journal.State) {
		s.ClaimGeneration = 3
		s.Operation = &journal.Operation{Phase: infrav1.HostDesiredReset, State: infrav1.OperationFailed, Failures: 2}
	})
	if err != nil {
		t.Fatal(err)
	}
	return healthServer{Version: "v1", Journal: j, LeaseDuration: func() time.Duration { return time.Minute }, VirtualIP: &vip.Keeper{},
		LastHeartbeat: func() time.Time { return last }, CertificateExpires: func() time.Time { return time.Unix(5, 0) }}
}

func TestReadyFollowsTheHeartbeat(t *testing.T) {
	for _, c := range []struct {
		last time.Time
		want int
	}{{time.Time{}, 503}, {time.Now(), 200}, {time.Now().Add(-time.Hour), 503}} {
		w := httptest.NewRecorder()
		server(t, c.last).handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code != c.want {
			t.Errorf("last heartbeat %v: status %d, want %d", c.last, w.Code, c.want)
		}
	}
}

func TestMetrics(t *testing.T) {
	got := server(t, time.Unix(9, 0)).metrics()
	for _, want := range []string{
		`slipway_agent_info{version="v1"} 1`, "slipway_agent_certificate_expiry_timestamp_seconds 5", "slipway_agent_claim_generation 3",
		`slipway_agent_operation{phase="Reset",state="Failed"} 1`, `slipway_agent_operation{phase="Reset",state="Running"} 0`, "slipway_agent_operation_failures 2",
		"slipway_agent_virtual_ip_held 0", "slipway_agent_virtual_ip_takeovers_total 0", "slipway_agent_virtual_ip_renew_failures_total 0",
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("metrics lack %q:\n%s", want, got)
		}
	}
}

func TestServeOnASocketThatAKilledAgentLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	old, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	old.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = old.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server(t, time.Now()).serve(ctx, "unix:"+path) }()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	var status int
	poll.Until(t, "the socket answers", func() error {
		response, err := client.Get("http://agent/healthz")
		if err != nil {
			return err
		}
		status = response.StatusCode
		return response.Body.Close()
	})
	if status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

// TestLocalUsersKeepNobodyFromHealth holds that connections have a limit, at which the one that has been silent for the
// longest time gives way: one that may be idle for a minute is closed before those that wait for their first request,
// for 5 s.
func TestLocalUsersKeepNobodyFromHealth(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server(t, time.Now()).serve(ctx, "unix:"+path) }()
	var idle net.Conn
	poll.Until(t, "the socket answers", func() (err error) {
		idle, err = net.Dial("unix", path)
		return err
	})
	get := func(c net.Conn) {
		t.Helper()
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: agent\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("%s, %v", response.Status, err)
		}
	}
	get(idle)
	closed := make(chan net.Conn, healthConnections.Anonymous+2)
	watch := func(c net.Conn) {
		t.Cleanup(func() { _ = c.Close() })
		go func() {
			_, _ = io.Copy(io.Discard, c)
			closed <- c
		}()
	}
	watch(idle)
	for range healthConnections.Anonymous {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		watch(c)
	}
	if c := <-closed; c != idle {
		t.Error("the idle connection was not the first that was closed")
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	get(c)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

// TestHealthRemovesNothingElse: healthAddress may name a file of somebody else by mistake, which
// root does not remove.
func TestHealthRemovesNothingElse(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a file":             func(path string) error { return os.WriteFile(path, []byte("own"), 0o600) },
		"a link":             func(path string) error { return os.Symlink("/etc/hostname", path) },
		"an empty directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"the socket of a program that runs": func(path string) error {
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		},
		"a dead socket of another user": func(path string) error {
			if os.Geteuid() != 0 {
				rights.Skip(t, "needs root")
			}
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			return errors.Join(l.Close(), os.Chown(path, 12345, 12345))
		},
		"a pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a socket of another kind": func(path string) error {
			l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if l, err := listen("unix:" + path); err == nil {
				_ = l.Close()
				t.Error("it is served in its place")
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("it is gone: %v", err)
			}
			// as if it had taken the place of the agent's own
			path = filepath.Join(t.TempDir(), "s")
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- healthServer{}.serve(ctx, "unix:"+path) }()
			poll.Until(t, "it serves", func() error {
				c, err := net.Dial("unix", path)
				if err == nil {
					err = c.Close()
				}
				return err
			})
			if err := errors.Join(os.Remove(path), put(path)); err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(path); err != nil {
				t.Errorf("the end of the agent removed it: %v", err)
			}
		})
	}
}

// TestHealthFollowsNoLinkOfAUser: the address is in a directory of a user, who puts a link in its place.
func TestHealthFollowsNoLinkOfAUser(t *testing.T) {
	if os.Geteuid() != 0 {
		rights.Skip(t, "needs root")
	}
	const user = 12345
	home, machine := t.TempDir(), t.TempDir()
	dir, theirs := filepath.Join(home, "run"), filepath.Join(machine, "s")
	dead := func() {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: theirs, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	dead()
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(home, user, user)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- healthServer{}.serve(ctx, "unix:"+dir+"/s") }()
	poll.Until(t, "it serves", func() error {
		c, err := net.Dial("unix", dir+"/s")
		if err == nil {
			err = c.Close()
		}
		return err
	})
	if err := errors.Join(os.RemoveAll(dir), os.Symlink(machine, dir), os.Lchown(dir, user, user)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(theirs); err != nil {
		t.Errorf("the end of the agent removed a socket of the machine: %v", err)
	}
	if l, err := listen("unix:" + dir + "/s"); err == nil {
		t.Errorf("its start took a socket of the machine: %v", l.Close())
	}
	if _, err := os.Lstat(theirs); err != nil {
		t.Errorf("its start removed a socket of the machine: %v", err)
	}
}
