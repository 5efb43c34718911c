package localhost

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/plane/internal/sandbox"
)

// TestRebootFromInside lets a host ask for a reboot while nobody serves it, then
// serves: it comes back once, with its disk and another boot ID, and a host that was
// switched off instead stays off.
func TestRebootFromInside(t *testing.T) {
	m := newManager(t, fakeBundle(t))
	rebooted, off := bootHost(t, m, 1, sleeper()), bootHost(t, m, 2, sleeper())
	before := hostOf(t, m, rebooted)
	mustOnHost(t, m, rebooted, "sh", "-c", "echo kept > /var/lib/kept")
	for _, host := range []string{rebooted, off} {
		askReboot(t, m, host)
		poll.True(t, host+" is down", func() bool { return hostOf(t, m, host).State == StateOff })
	}
	if err := m.PowerOff(t.Context(), off, true); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	reports := make(chan string, 10)
	served := make(chan struct{})
	go func() {
		defer close(served)
		m.ServeReboots(ctx, func(host string, err error) {
			if err != nil {
				t.Errorf("reboot of %s: %v", host, err)
			}
			reports <- host
		})
	}()
	poll.True(t, "the host is up again", func() bool { return hostOf(t, m, rebooted).State == StateRunning })
	if host := <-reports; host != rebooted {
		t.Errorf("%s was switched on", host)
	}
	after := hostOf(t, m, rebooted)
	if after.BootID == before.BootID || after.MachineID != before.MachineID {
		t.Errorf("before the reboot %+v, after it %+v", before, after)
	}
	if got := mustOnHost(t, m, rebooted, "cat", "/var/lib/kept", "/proc/sys/kernel/random/boot_id"); got != "kept\n"+after.BootID {
		t.Errorf("on the host: %q", got)
	}

	// Asked while it is served; and what happened meanwhile to the other host.
	askReboot(t, m, rebooted)
	poll.True(t, "the host is up once more", func() bool {
		h := hostOf(t, m, rebooted)
		return h.State == StateRunning && h.BootID != after.BootID
	})
	if h := hostOf(t, m, off); h.State != StateOff {
		t.Errorf("a host that was switched off is %s", h.State)
	}
	cancel()
	<-served
}

// askReboot is done when the host was asked: going down, it may end systemctl before
// that has had its answer.
func askReboot(t *testing.T, m *Manager, host string) {
	t.Helper()
	_, errs, code := runOnHost(t, m, host, "systemctl", "reboot")
	if code != 0 && code != 128+int(unix.SIGTERM) && code != 128+int(unix.SIGKILL) {
		t.Fatalf("systemctl reboot on %s: exit code %d: %s", host, code, errs)
	}
}

// TestPowerReturns lets the machine have gone down with two hosts on it: the one that nobody
// switches off comes on again.
func TestPowerReturns(t *testing.T) {
	m := newManager(t, fakeBundle(t))
	on, off := bootHost(t, m, 1, sleeper()), bootHost(t, m, 2, sleeper())
	for _, host := range []string{on, off} {
		if err := m.PowerOff(t.Context(), host, false); err != nil {
			t.Fatal(err)
		}
		if sandbox.DownWithMachine(m.Dir(host)) {
			t.Errorf("%s went down with a machine that runs", host)
		}
		earlierBoot(t, m.Dir(host))
		if !sandbox.DownWithMachine(m.Dir(host)) {
			t.Errorf("%s did not go down with the machine", host)
		}
	}
	if err := m.PowerOff(t.Context(), off, false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		m.ServeReboots(ctx, func(host string, err error) {
			if err != nil || host != on {
				t.Errorf("%s was switched on: %v", host, err)
			}
		})
	}()
	poll.True(t, "the host is up again", func() bool { return hostOf(t, m, on).State == StateRunning })
	cancel()
	<-served
	if h := hostOf(t, m, off); h.State != StateOff || sandbox.DownWithMachine(m.Dir(off)) {
		t.Errorf("a host that was switched off is %s", h.State)
	}
	if err := sandbox.NoteOff(t.TempDir()); err != nil {
		t.Errorf("a host that never booted: %v", err)
	}
}

// earlierBoot makes the record one of an earlier run of the machine.
func earlierBoot(t *testing.T, dir string) {
	t.Helper()
	record, err := sandbox.LoadRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	record.MachineBootID = "00000000-0000-0000-0000-000000000000"
	data, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "init.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
}
