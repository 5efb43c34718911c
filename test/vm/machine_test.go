package vm

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
)

// variable asks for the tests with machines; `make test-vm` sets it.
const variable = "SLIPWAY_TEST_VM"

// newMachine makes a machine that is off. It is switched off at the end.
func newMachine(t *testing.T) *Machine {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skip("boots a machine in an emulator, which takes minutes: `make test-vm` runs it")
	}
	if binaries() == "" || os.Geteuid() != 0 {
		rights.Skip(t, "needs root and SLIPWAY_BIN; run it with `make test-vm`")
	}
	// beside what Go keeps of builds: the next clone on this machine has it, too
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	disk, err := OpenDisk(t.Context(), filepath.Join(cache, "slipway-test", "machines"), suite())
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	m, err := NewMachine(t.Context(), disk, folder, shared.FreePort(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("disk of %s: %.1fs", suite(), time.Since(begin).Seconds())
	t.Cleanup(func() {
		if t.Failed() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
			defer cancel()
			out, err := m.Run(ctx, "systemctl --failed; ps axf | tail -n 40; journalctl --no-pager -n 200")
			t.Logf("the machine (%v):\n%s\nits console:\n%s", err, out, m.Console())
		}
		if err := m.PowerCut(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// binaries is the folder of programs that were built.
func binaries() string { return os.Getenv("SLIPWAY_BIN") }

// suite is the release of Debian: bookworm is Debian 12, trixie 13.
func suite() string { return cmp.Or(os.Getenv("SLIPWAY_TEST_VM_SUITE"), "bookworm") }

func boot(t *testing.T, m *Machine) {
	t.Helper()
	begin := time.Now()
	if err := m.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("boot: %.1fs", time.Since(begin).Seconds())
}

// scriptTakes bounds a script on the machine.
const scriptTakes = 15 * time.Minute

// within runs a script for no longer than a time.
func (m *Machine) within(limit time.Duration, script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return m.Run(ctx, script)
}

func (m *Machine) must(t *testing.T, script string) string {
	t.Helper()
	out, err := m.within(scriptTakes, script)
	if err != nil {
		t.Fatalf("on the machine: %s: %v\n%s", script, err, out)
	}
	return out
}

func snapshot(t *testing.T, m *Machine) Snapshot {
	t.Helper()
	begin := time.Now()
	s, err := m.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("snapshot of %d paths: %.1fs", len(s), time.Since(begin).Seconds())
	return s
}

// What other tests of machines go by: a file that was synced outlives a power cut, and a
// comparison of the file system finds what differs and nothing else.
func TestMachine(t *testing.T) {
	m := newMachine(t)
	boot(t, m)
	m.must(t, "systemctl is-system-running --wait || systemctl --failed")
	before := snapshot(t, m)
	m.must(t, "echo kept >/root/kept && sync")
	if err := m.PowerCut(); err != nil {
		t.Fatal(err)
	}
	boot(t, m)
	if got := m.must(t, "cat /root/kept"); got != "kept\n" {
		t.Errorf("after a power cut the file has %q", got)
	}
	changes := snapshot(t, m).Since(before)
	if want := "left behind: /root/kept"; len(changes) != 1 || changes[0] != want {
		t.Errorf("changes %q, want %q alone", changes, want)
	}
}
