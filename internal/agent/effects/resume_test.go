package effects_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
	"github.com/slipway-dev/slipway/internal/agent/vip"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// data is bootstrap data that behaves like kubeadm: the second command fails
// unless the host is clean. ROOT is replaced by the root directory.
const data = `## template: jinja
#cloud-config

write_files:
-   path: /etc/kubernetes/pki/ca.crt
    owner: root:root
    permissions: '0640'
    content: |
      certificate of {{ ds.meta_data.local_hostname }}
-   path: /run/kubeadm/kubeadm.yaml
    permissions: '0640'
    content: |
      ---
      nodeName: {{ ds.meta_data.local_hostname }}
-   path: /run/kubeadm/kubeadm-join-config.yaml
    content: |
      ---
      kind: JoinConfiguration
      nodeRegistration:
        ignorePreflightErrors: [Swap, SystemVerification]
-   path: /run/cluster-api/placeholder
    content: "placeholder"
-   path: /etc/motd
    content: "hello"
    append: true
bootcmd:
  - "echo boot >> ROOT/runs"
runcmd:
  - "STATE=ROOT/var/lib/kubelet"
  - 'test ! -e $STATE/config.yaml && mkdir -p $STATE && echo config > $STATE/config.yaml && echo kubeadm init >> ROOT/runs && echo success > ROOT/run/cluster-api/bootstrap-success.complete'
  - [sh, -c, "echo post >> ROOT/runs"]
users:
  - name: capi
    groups: wheel
    sudo: ALL=(ALL) NOPASSWD:ALL
    ssh_authorized_keys:
      - ssh-ed25519 AAAA test
`

type secrets struct{ data string }

// GetSecret implements core.API.
func (s secrets) GetSecret(context.Context, string, string) (*corev1.Secret, error) {
	return &corev1.Secret{Data: map[string][]byte{"value": []byte(s.data), "format": []byte("cloud-config")}}, nil
}

// management is a management cluster in which nobody changes the Host.
type management struct {
	secrets
	host *infrav1.Host
}

// GetHost implements core.API.
func (m management) GetHost(context.Context, string, string) (*infrav1.Host, error) {
	return m.host.DeepCopy(), nil
}

// errCrash stands for the end of the process.
var errCrash = errors.New("crash")

// crashing ends the process at the n-th record of the operation.
type crashing struct {
	operation.Executor
	cancel context.CancelCauseFunc
	left   int
}

type crashingProgress struct {
	operation.Progress
	c *crashing
}

func (p crashingProgress) hit(run func() error) error {
	if p.c.left--; p.c.left == 0 {
		p.c.cancel(errCrash)
		return errCrash
	}
	if p.c.left < 0 {
		return errCrash
	}
	return run()
}

func (p crashingProgress) Begin(step string) error {
	return p.hit(func() error { return p.Progress.Begin(step) })
}

func (p crashingProgress) Done() error { return p.hit(p.Progress.Done) }

func (p crashingProgress) Update(change func(*journal.State)) error {
	return p.hit(func() error { return p.Progress.Update(change) })
}

func (c *crashing) Bootstrap(ctx context.Context, o operation.Bootstrap, p operation.Progress) error {
	return c.Executor.Bootstrap(ctx, o, crashingProgress{p, c})
}

func (c *crashing) Adopt(ctx context.Context, o operation.Adoption, p operation.Progress) error {
	return c.Executor.Adopt(ctx, o, crashingProgress{p, c})
}

func (c *crashing) Upgrade(ctx context.Context, o operation.Upgrade, p operation.Progress) error {
	return c.Executor.Upgrade(ctx, o, crashingProgress{p, c})
}

func (c *crashing) PrepareReboot(ctx context.Context, drain bool, p operation.Progress, goDown func(context.Context) error) error {
	return c.Executor.PrepareReboot(ctx, drain, crashingProgress{p, c}, goDown)
}

func (c *crashing) Rebooted(ctx context.Context, bootID string, p operation.Progress) error {
	return c.Executor.Rebooted(ctx, bootID, crashingProgress{p, c})
}

func (c *crashing) Reset(ctx context.Context, p operation.Progress) error {
	return c.Executor.Reset(ctx, crashingProgress{p, c})
}

// process runs one life of an agent until the spec is carried out, or until it
// crashes at the n-th record (0: never). It reports the crash.
func process(t *testing.T, h *fakehost.Host, path string, spec *infrav1.HostSpec, crashAt int) (journal.State, bool) {
	t.Helper()
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	ctx, cancel := context.WithCancelCause(poll.Context(t))
	defer cancel(nil)
	h.Candidate = func() vip.Candidate { return effects.Candidate("host-1", j.State()) }
	h.PowerCut = func() { cancel(errCrash) }
	loop := core.NewLoop()
	loop.Journal, loop.BootID, loop.Namespace = j, strings.TrimSpace(read(t, h, bootIDFile)), "ns"
	loop.Executor = &crashing{Executor: h.Executor, cancel: cancel, left: crashAt}
	if crashAt == 0 {
		loop.Executor = h.Executor
	}
	host := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{UID: "uid"}, Spec: *spec}
	loop.API = management{secrets{strings.ReplaceAll(data, "ROOT", string(h.Root))}, host}
	loop.Log = slog.New(slog.DiscardHandler)
	immediately := make(chan time.Time)
	close(immediately)
	loop.After = func(time.Duration) <-chan time.Time { return immediately }
	clock := time.Now()
	loop.Now = func() time.Time { clock = clock.Add(time.Hour); return clock }
	loop.Changed = func(*infrav1.ObservedOperation) {
		if op := j.State().Operation; op != nil && op.ID == spec.Desired.OperationID && op.State != infrav1.OperationRunning {
			cancel(nil)
		}
	}
	// A host is enrolled before it is claimed, or has no record of it.
	if s := j.State(); s.HostUID == "" && s.Lost == nil {
		if err := j.Update(func(s *journal.State) { s.HostUID = "uid" }); err != nil {
			t.Fatal(err)
		}
	}
	loop.Observe(host)
	loop.Run(ctx)
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		t.Fatalf("not done: %+v", j.State().Operation)
	}
	return j.State(), errors.Is(context.Cause(ctx), errCrash)
}

func hostSpec(phase infrav1.HostDesiredPhase, id string) *infrav1.HostSpec {
	return &infrav1.HostSpec{
		ClaimGeneration: 1, Claim: &infrav1.HostClaim{MachineName: "m", ClusterName: "c", ClaimID: "claim"},
		Desired: &infrav1.HostDesired{
			Phase: phase, OperationID: id, BootstrapSecretName: "secret",
			ProviderID: "slipway://ns/host-1/claim", VirtualIP: "10.0.0.200", VirtualIPPort: 8443, InitializesControlPlane: ptr.To(true),
		},
	}
}

func read(t *testing.T, h *fakehost.Host, path string) string {
	t.Helper()
	content, err := os.ReadFile(h.Root.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func assertBootstrapped(t *testing.T, h *fakehost.Host, s journal.State) {
	t.Helper()
	if s.Operation.State != infrav1.OperationSucceeded {
		t.Fatalf("the operation is %+v", s.Operation)
	}
	if got := read(t, h, "/etc/kubernetes/pki/ca.crt"); got != "certificate of host-1\n" {
		t.Errorf("the certificate is %q", got)
	}
	if got := read(t, h, "/etc/default/kubelet"); !strings.Contains(got, "--provider-id=slipway://ns/host-1/claim --node-ip=10.0.0.5 --hostname-override=host-1 --register-node=false") {
		t.Errorf("the arguments of the kubelet are %q", got)
	}
	if got := read(t, h, "/etc/motd"); got != "hello" {
		t.Errorf("the appended file is %q", got)
	}
	if got := read(t, h, "/runs"); !strings.HasSuffix(got, "kubeadm init\npost\n") {
		t.Errorf("the commands ran as %q", got)
	}
	if !h.Network.Has("10.0.0.200") {
		t.Error("the virtual IP is not held")
	}
}

func assertClean(t *testing.T, h *fakehost.Host, s journal.State) {
	t.Helper()
	if s.Operation.State != infrav1.OperationSucceeded || s.CleanProof == nil || s.CleanProof.ClaimGeneration != 1 || s.Residue != journal.ResidueNone {
		t.Fatalf("no proof: operation %+v, proof %+v, residue %q", s.Operation, s.CleanProof, s.Residue)
	}
	for _, path := range []string{
		"/etc/kubernetes/pki", "/run/kubeadm/kubeadm.yaml", "/run/cluster-api/placeholder", "/var/lib/kubelet/config.yaml",
		"/etc/default/kubelet", "/etc/motd", "/etc/sudoers.d/90-slipway-users",
	} {
		if _, err := os.Stat(h.Root.Path(path)); err == nil {
			t.Errorf("%s is left", path)
		}
	}
	if h.Network.Has("10.0.0.200") {
		t.Error("the virtual IP is left")
	}
	if accounts := read(t, h, "/etc/passwd") + read(t, h, "/etc/group"); strings.Contains(accounts, "capi") || strings.Contains(accounts, "wheel") {
		t.Errorf("accounts of the bootstrap are left: %q", accounts)
	}
}

func TestBootstrapAndReset(t *testing.T) {
	h, path := fakehost.New(t), filepath.Join(t.TempDir(), "journal")
	s, _ := process(t, h, path, hostSpec(infrav1.HostDesiredBootstrapped, "boot"), 0)
	assertBootstrapped(t, h, s)
	if s.CleanProof != nil {
		t.Error("a bootstrapped host has a proof to be clean")
	}
	// What a network plugin adds meanwhile.
	h.Network.AddLink(network.Link{Name: "cni0", Kind: "bridge"})
	h.Network.AddLink(network.Link{Name: "veth12345678", Kind: "veth"})
	h.Network.AddRoute("10.244.1.0/24 via 10.0.0.6 dev eth0")
	h.Network.AddTable("ip kube-proxy")
	s, _ = process(t, h, path, hostSpec(infrav1.HostDesiredReset, "reset"), 0)
	assertClean(t, h, s)
	if links := h.Network.Names(network.Interfaces); len(links) != 1 {
		t.Errorf("interfaces %v are left", links)
	}
	if h.Programs.RanPrefix("kubeadm reset --force") != 1 {
		t.Errorf("kubeadm reset did not run once: %q", h.Programs.Ran())
	}
}

// The port of the endpoint goes from the operation into the journal: the election and the proof
// of a reset look at it. A program of the host's own that listened there before is left alone.
func TestPortOfTheEndpointIsRecorded(t *testing.T) {
	const listener = "  sl  local_address rem_address   st\n   0: 00000000:20FB 00000000:0000 0A\n"
	for _, taken := range []bool{false, true} {
		h, path := fakehost.New(t), filepath.Join(t.TempDir(), "journal")
		listen := func() {
			if err := os.WriteFile(h.Root.Path("/proc/net/tcp"), []byte(listener), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if taken {
			listen()
		}
		s, _ := process(t, h, path, hostSpec(infrav1.HostDesiredBootstrapped, "boot"), 0)
		assertBootstrapped(t, h, s)
		if s.VirtualIPPort != 8443 || s.VirtualIPPortTaken != taken || effects.Candidate("h", s).Port != 8443 {
			t.Errorf("taken before: %t: the journal has port %d, taken %t", taken, s.VirtualIPPort, s.VirtualIPPortTaken)
		}
		listen()
		left, err := h.Executor.Verify(t.Context(), s)
		if err != nil || slices.Contains(left, "listener on port 8443") == taken {
			t.Errorf("taken before: %t: what is left is %q, error %v", taken, left, err)
		}
		if !taken {
			if err := os.WriteFile(h.Root.Path("/proc/net/tcp"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, _ = process(t, h, path, hostSpec(infrav1.HostDesiredReset, "reset"), 0)
		assertClean(t, h, s)
		if s.VirtualIPPort != 0 || s.VirtualIPPortTaken {
			t.Errorf("the journal of a clean host has port %d, taken %t", s.VirtualIPPort, s.VirtualIPPortTaken)
		}
	}
}

// TestKillAtEveryRecord ends the agent before each record of a bootstrap and of
// a reset. The next life must come to the same end.
func TestKillAtEveryRecord(t *testing.T) {
	t.Parallel()
	for _, phase := range []infrav1.HostDesiredPhase{infrav1.HostDesiredBootstrapped, infrav1.HostDesiredReset} {
		for at := range level.Endless() {
			crashed := false
			t.Run(fmt.Sprintf("%s record %d", phase, at), func(t *testing.T) { crashed = killAt(t, phase, at) })
			if !crashed || t.Failed() {
				break
			}
		}
	}
}

func killAt(t *testing.T, phase infrav1.HostDesiredPhase, at int) (crashed bool) {
	t.Helper()
	h, path := fakehost.New(t), filepath.Join(t.TempDir(), "journal")
	if phase == infrav1.HostDesiredReset {
		process(t, h, path, hostSpec(infrav1.HostDesiredBootstrapped, "boot"), 0)
	}
	_, crashed = process(t, h, path, hostSpec(phase, "op"), at)
	s, _ := process(t, h, path, hostSpec(phase, "op"), 0)
	if phase == infrav1.HostDesiredReset {
		assertClean(t, h, s)
		return crashed
	}
	assertBootstrapped(t, h, s)
	s, _ = process(t, h, path, hostSpec(infrav1.HostDesiredReset, "reset"), 0)
	assertClean(t, h, s)
	return crashed
}
