package effects_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// bootstrapData is a Secret with bootstrap data.
type bootstrapData string

// GetHost implements core.API: no host of these tests makes a control plane.
func (d bootstrapData) GetHost(context.Context, string, string) (*infrav1.Host, error) {
	return nil, errors.New("no Host")
}

func (d bootstrapData) GetSecret(context.Context, string, string) (*corev1.Secret, error) {
	return &corev1.Secret{Data: map[string][]byte{"value": []byte(d)}}, nil
}

// life has an agent, with its real loop and the journal at path, carry out an operation on a host.
func life(t *testing.T, h *fakehost.Host, path string, data bootstrapData, phase infrav1.HostDesiredPhase) journal.State {
	t.Helper()
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	loop := core.NewLoop()
	loop.Journal, loop.Executor, loop.API, loop.Namespace, loop.BootID = j, h.Executor, data, "ns", "boot"
	loop.Log = slog.New(slog.DiscardHandler)
	passed, clock := make(chan time.Time), time.Now()
	close(passed)
	waits := 0
	loop.After = func(time.Duration) <-chan time.Time {
		if waits++; waits == 100 {
			cancel() // it goes on for ever
		}
		return passed
	}
	loop.Now = func() time.Time { clock = clock.Add(time.Hour); return clock }
	// The host is enrolled, free and proved clean, and claimed then.
	spec := infrav1.HostSpec{
		ClaimGeneration: 1, Claim: &infrav1.HostClaim{MachineName: "m", ClusterName: "c", ClaimID: "claim"},
		Desired: &infrav1.HostDesired{Phase: phase, OperationID: string(phase), BootstrapSecretName: "s", ProviderID: "slipway://ns/host-1/claim"},
	}
	loop.Changed = func(*infrav1.ObservedOperation) {
		s := j.State()
		if s.CleanProof != nil && s.Operation == nil {
			loop.Observe(&infrav1.Host{ObjectMeta: metav1.ObjectMeta{UID: "uid"}, Spec: spec})
		}
		if s.Operation != nil && s.Operation.ID == string(phase) && s.Operation.State != infrav1.OperationRunning {
			cancel()
		}
	}
	if phase == infrav1.HostDesiredBootstrapped {
		loop.Observe(&infrav1.Host{ObjectMeta: metav1.ObjectMeta{UID: "uid"}})
	} else {
		loop.Observe(&infrav1.Host{ObjectMeta: metav1.ObjectMeta{UID: "uid"}, Spec: spec})
	}
	loop.Run(ctx)
	return j.State()
}

// TestNoProofWithoutTheJournal: an agent that does not know what a bootstrap did to the host takes off
// what it finds of a node, and proves nothing.
func TestNoProofWithoutTheJournal(t *testing.T) {
	const data = "#cloud-config\nusers: [{name: former, ssh_authorized_keys: [ssh-ed25519 FORMER]}]\nwrite_files: [{path: /etc/profile.d/former.sh, content: x}]\n"
	for name, c := range map[string]struct {
		damage func(data []byte) []byte
		proof  bool
	}{
		"whole":                 {func(d []byte) []byte { return d }, true},
		"torn by a power cut":   {func(d []byte) []byte { return d[:len(d)-5] }, true},
		"gone":                  {func([]byte) []byte { return nil }, false},
		"one bit of the newest": {func(d []byte) []byte { d[len(d)-20] ^= 1; return d }, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, path := fakehost.New(t), filepath.Join(t.TempDir(), "journal")
			if s := life(t, h, path, data, infrav1.HostDesiredBootstrapped); s.Operation.State != infrav1.OperationSucceeded {
				t.Fatalf("bootstrap: %+v", s.Operation)
			}
			h.Put(t, "/etc/kubernetes/kubelet.conf", "")
			h.Put(t, "/etc/cni/net.d/10-flannel.conflist", "")
			h.Put(t, "/etc/cni/net.d/multus.d/multus.kubeconfig", "")
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if damaged := c.damage(content); damaged == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, damaged, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			s := life(t, h, path, data, infrav1.HostDesiredReset)
			if (s.CleanProof != nil) != c.proof || (s.Operation.State == infrav1.OperationSucceeded) != c.proof {
				t.Errorf("proof %+v, %+v", s.CleanProof, s.Operation)
			}
			if !c.proof && !strings.Contains(s.Operation.Message, "unknown changes: the journal") {
				t.Errorf("the message is %q", s.Operation.Message)
			}
			for _, path := range []string{"/etc/kubernetes/kubelet.conf", "/etc/cni/net.d/10-flannel.conflist", "/etc/cni/net.d/multus.d"} {
				if _, err := os.Lstat(h.Root.Path(path)); err == nil {
					t.Errorf("%s, which is found to be a node's, is still there", path)
				}
			}
		})
	}
}

// TestResetOfAFullDisk: a workload filled the disk on which the journal is, too, which is one of the most
// usual reasons to have a host reset. The reset frees that disk.
func TestResetOfAFullDisk(t *testing.T) {
	h := fakehost.New(t)
	disk := h.Root.Path("/var")
	if err := unix.Mount("slipway", disk, "tmpfs", 0, "size=6m"); err != nil {
		rights.Skip(t, "a disk of its own takes root:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	path := h.Root.Path("/var/lib/slipway-agent/journal")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	const data = "#cloud-config\nruncmd: [\"true\"]\n"
	if s := life(t, h, path, data, infrav1.HostDesiredBootstrapped); s.Operation.State != infrav1.OperationSucceeded {
		t.Fatalf("bootstrap: %+v", s.Operation)
	}
	volume := h.Root.Path("/var/lib/kubelet/pods/a-pod/volumes/data")
	if err := os.MkdirAll(filepath.Dir(volume), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(volume)
	if err != nil {
		t.Fatal(err)
	}
	for piece := make([]byte, 64<<10); len(piece) > 0; {
		if _, err := f.Write(piece); errors.Is(err, unix.ENOSPC) {
			piece = piece[:len(piece)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if s := life(t, h, path, data, infrav1.HostDesiredReset); s.CleanProof == nil {
		t.Errorf("%+v", s.Operation)
	}
}

// TestWhatCannotBeTakenBackIsNamed: a directory where a file was, and a file on a disk that has become
// read-only, keep nothing else from going; each is named with its path, and the host is clean once it is mended.
func TestWhatCannotBeTakenBackIsNamed(t *testing.T) {
	const content = "write_files: [{path: /etc/a.conf, content: theirs}, {path: /srv/b.conf, content: theirs}, {path: /srv/ro/c.conf, content: theirs}]"
	h, p := fakehost.New(t), newRecord(t)
	h.Put(t, "/etc/a.conf", "own")
	disk := h.Root.Path("/srv/ro")
	if err := os.MkdirAll(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("slipway", disk, "tmpfs", 0, ""); err != nil {
		rights.Skip(t, "a disk of its own takes root:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte("#cloud-config\n" + content + "\n")}, p); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/etc/a.conf", "/srv/b.conf"} {
		if err := errors.Join(os.Remove(h.Root.Path(path)), os.MkdirAll(h.Root.Path(path+"/inside"), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("slipway", disk, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	h.Put(t, "/etc/kubernetes/kubelet.conf", "")
	failed := h.Executor.Reset(t.Context(), p)
	for _, path := range []string{"/etc/a.conf", "/srv/b.conf", "/srv/ro/c.conf"} {
		if failed == nil || !strings.Contains(failed.Error(), path) {
			t.Errorf("the error does not name %s: %v", path, failed)
		}
	}
	if _, err := os.Lstat(h.Root.Path("/etc/kubernetes/kubelet.conf")); err == nil {
		t.Error("what is elsewhere is left, too")
	}
	left, err := h.Executor.Verify(t.Context(), p.State())
	if err != nil || len(left) != 3 {
		t.Errorf("left is %q, %v", left, err)
	}
	if err := unix.Mount("slipway", disk, "tmpfs", unix.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/etc/a.conf", "/srv/b.conf"} {
		if err := os.RemoveAll(h.Root.Path(path)); err != nil {
			t.Fatal(err)
		}
	}
	h.Put(t, "/etc/a.conf", "theirs")
	_ = os.Chmod(h.Root.Path("/etc/a.conf"), 0o644)
	if err := h.Executor.Reset(t.Context(), p); err != nil {
		t.Errorf("once it is mended: %v", err)
	}
	if left, err := h.Executor.Verify(t.Context(), p.State()); err != nil || len(left) > 0 {
		t.Errorf("left is %q, %v", left, err)
	}
}
