package effects_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/bootstrap"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// What a bootstrap printed is read by who bootstraps the host for the same claim, and by
// nobody who comes after: their commands run as root there.
func TestLogIsOfOneClaim(t *testing.T) {
	h, p := fakehost.New(t), newRecord(t)
	run := func(claimID, command string) string {
		t.Helper()
		requested := operation.Bootstrap{ClaimID: claimID, Data: []byte("#cloud-config\nruncmd:\n- " + command + "\n")}
		if err := h.Executor.Bootstrap(t.Context(), requested, p); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(h.Root.Path(bootstrap.LogFile))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	released := func() {
		t.Helper()
		if err := p.Update(func(s *journal.State) { s.Residue, s.Baseline = journal.ResidueNone, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if log := run("first", "echo kubeadm join --token abcdef.0123456789abcdef"); !strings.Contains(log, "abcdef.0123456789abcdef") {
		t.Fatalf("the log is %q", log)
	}
	// A try after a reset, which the same claim asks for, has to be told from the one before.
	released()
	if log := run("first", "echo again"); !strings.Contains(log, "abcdef.0123456789abcdef") || !strings.Contains(log, "again") {
		t.Errorf("the log of a claim has only its last try: %q", log)
	}
	released()
	if log := run("second", "echo mine"); strings.Contains(log, "abcdef") || !strings.Contains(log, "mine") {
		t.Errorf("the next claim reads %q", log)
	}
	if info, err := os.Stat(h.Root.Path(bootstrap.LogFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	// Root of the host may have left anything in its place.
	released()
	other := h.Root.Path("/etc/other")
	path := h.Root.Path(bootstrap.LogFile)
	if err := os.WriteFile(other, []byte("=== claim third ===\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	run("third", "echo third")
	if data, err := os.ReadFile(other); err != nil || string(data) != "=== claim third ===\n" {
		t.Errorf("the bootstrap wrote where a link led: %q, %v", data, err)
	}
}

// Programs of the group of /var/log may put what they like there: root writes nothing through it, and
// nobody else reads what the commands print.
func TestLogIsRootsAlone(t *testing.T) {
	for name, command := range map[string]string{
		"a link":                "ln -s ../../etc/secret/key LOG",
		"a pipe":                "mkfifo -m 666 LOG",
		"a file of theirs":      "touch LOG && chown 1234 LOG",
		"a file for all":        "touch LOG && chmod 666 LOG",
		"another name of a key": "ln ROOT/etc/secret/key LOG",
	} {
		t.Run(name, func(t *testing.T) {
			h, p := withHome(t), newRecord(t)
			if err := errors.Join(os.MkdirAll(h.Root.Path("/var/log"), 0o755), os.Chmod(h.Root.Path("/var/log"), 0o775)); err != nil {
				t.Fatal(err)
			}
			// The first commands act for such a program: the log is opened again for the others.
			data := strings.NewReplacer("LOG", h.Root.Path(bootstrap.LogFile), "ROOT", string(h.Root)).Replace(
				"#cloud-config\nbootcmd: ['rm LOG', '" + command + "']\nruncmd: ['echo abcdef.0123456789abcdef']\n")
			if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{ClaimID: "claim", Data: []byte(data)}, p); err != nil {
				t.Fatal(err)
			}
			info, err := os.Lstat(h.Root.Path(bootstrap.LogFile))
			if err != nil || info.Mode() != 0o600 || info.Sys().(*syscall.Stat_t).Uid != 0 || !strings.Contains(read(t, h, bootstrap.LogFile), "abcdef.0123456789abcdef") {
				t.Errorf("the log is %v: %v", info, err)
			}
			secretIsRoots(t, h)
		})
	}
}
