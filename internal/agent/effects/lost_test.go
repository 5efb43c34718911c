package effects_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// bootstrapData is a Secret with bootstrap data.
type bootstrapData string

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
	loop.Journal, loop.Executor, loop.Secrets, loop.Namespace, loop.BootID = j, h.Executor, data, "ns", "boot"
	loop.Log = slog.New(slog.DiscardHandler)
	passed, clock := make(chan time.Time), time.Now()
	close(passed)
	loop.After = func(time.Duration) <-chan time.Time { return passed }
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
			if _, err := os.Lstat(h.Root.Path("/etc/kubernetes/kubelet.conf")); err == nil {
				t.Error("what is found of a node is still there")
			}
		})
	}
}
