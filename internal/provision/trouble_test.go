package provision_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/provision"
	"github.com/slipway-dev/slipway/internal/provision/remote"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// idle is a systemctl that starts nothing.
const idle = "#!/bin/sh\necho \"$*\" >>/run/systemctl.log\n[ \"$1\" != --quiet ] || [ \"$2\" = enable ]\n"

// watched is a machine on which the test sees each script before it runs.
type watched struct {
	provision.Machine
	before func(script string, stdin io.Reader) io.Reader
}

func (m watched) Run(ctx context.Context, script string, stdin io.Reader) (string, error) {
	return m.Machine.Run(ctx, script, m.before(script, stdin))
}

func (w *world) watch(before func(script string, stdin io.Reader) io.Reader) {
	w.t.Helper()
	dial := w.dialer(remote.Options{}).Dial
	w.options.Dial = func(ctx context.Context, address string) (provision.Machine, error) {
		m, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return watched{m, before}, nil
	}
}

// begin adds one machine while the test goes on.
func (w *world) begin(address string) <-chan provision.Result {
	w.t.Helper()
	done := make(chan provision.Result, 1)
	go func() {
		results, err := provision.Add(w.t.Context(), w.options, []string{address})
		if err != nil {
			w.t.Error(err)
			results = make([]provision.Result, 1)
		}
		done <- results[0]
	}()
	return done
}

// enrolled makes a Host that is available and connected, of the machine with this ID.
func (w *world) enrolled(name, machineID string) {
	w.t.Helper()
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: w.options.Namespace, Name: name}}
	err := env.Client.Create(w.t.Context(), h)
	if err == nil {
		h.Status.Phase, h.Status.Inventory.MachineID = infrav1.HostPhaseAvailable, machineID
		conditions.Set(h, metav1.Condition{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue, Reason: infrav1.HostHeartbeatFreshReason})
		err = env.Client.Status().Update(w.t.Context(), h)
	}
	if err == nil {
		h.Spec.HostID = testenv.HostID(h.Namespace, h.Name)
		err = env.Client.Update(w.t.Context(), h)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// oneOf sees that one machine was added, and the other refused for the reason.
func oneOf(t *testing.T, results []provision.Result, reason provision.Reason, says string) {
	t.Helper()
	results = slices.Clone(results)
	slices.SortFunc(results, func(a, b provision.Result) int { return strings.Compare(string(a.State), string(b.State)) })
	if results[0].State != provision.StateAdded || results[1].State != provision.StateFailed || results[1].Reason != reason || !strings.Contains(results[1].Message, says) {
		t.Errorf("%+v", results)
	}
}

// Two machines of one name, in one run: neither passes for the other.
func TestTwoOfOneName(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	a, b := w.machine("twin"), w.machine("twin")
	results, _ := w.add(at(a.port), at(b.port))
	oneOf(t, results, provision.ReasonNameTaken, "its name twin is that of 127.0.0.1:")
	if left := w.tokens(); len(left) > 0 {
		t.Errorf("tokens are left: %v", left)
	}
}

// Another machine enrolls by the name while this one is waited for.
func TestNameIsTakenMeanwhile(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	b := w.machine("slow")
	b.write("/usr/local/sbin/systemctl", idle)
	w.options.Dial = w.dialer(remote.Options{}).Dial
	done := w.begin(at(b.port))
	poll.True(t, "the agent was started", func() bool { return strings.Contains(b.read("/run/systemctl.log"), "restart slipway-agent") })
	w.enrolled("slow", "another")
	if r := <-done; r.State != provision.StateFailed || r.Reason != provision.ReasonNameTaken || !strings.Contains(r.Message, "belongs to another machine") {
		t.Errorf("%+v", r)
	}
	if left := w.tokens(); len(left) > 0 {
		t.Errorf("tokens are left: %v", left)
	}
}

// A Host that is connected from before does not stand for a certificate that is lost.
func TestLostCertificate(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	b := w.machine("lost")
	b.write("/usr/local/sbin/systemctl", idle)
	b.write("/var/lib/slipway-agent/identity.key", "")
	w.enrolled("lost", strings.TrimSpace(b.read("/etc/machine-id")))
	waits := make(chan struct{})
	looks := 0
	w.watch(func(script string, stdin io.Reader) io.Reader {
		if strings.Contains(script, "echo certified") {
			if looks++; looks == 2 {
				close(waits)
			}
		}
		return stdin
	})
	done := w.begin(at(b.port))
	select {
	case r := <-done:
		t.Fatalf("it has no certificate: %+v", r)
	case <-waits:
	}
	if left := w.tokens(); len(left) != 1 {
		t.Errorf("tokens %v", left)
	}
	b.write("/var/lib/slipway-agent/kubeconfig", "clusters: []\n")
	if r := <-done; r.State != provision.StateAdded {
		t.Errorf("%+v", r)
	}
}

// A copy of a machine, with its machine-id, is not taken for the machine.
func TestCopies(t *testing.T) {
	level.Deep(t)
	for _, name := range []string{"copy", "renamed"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.machine("copy"), w.machine(name)
			b.write("/etc/machine-id", a.read("/etc/machine-id"))
			b.sh("echo other >/run/boot_id && mount --bind /run/boot_id /proc/sys/kernel/random/boot_id")
			results, _ := w.add(at(a.port), at(b.port))
			oneOf(t, results, provision.ReasonMachineIDTaken, "one is a copy of the other")
		})
	}
}

// No machine is asked anything for a namespace that is not there.
func TestMissingNamespace(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	w.options.Namespace = "not-there"
	w.options.Dial = func(context.Context, string) (provision.Machine, error) {
		t.Error("it was asked")
		return nil, errors.New("asked")
	}
	_, err := provision.Add(t.Context(), w.options, []string{"192.0.2.1:22"})
	if err == nil || !strings.Contains(err.Error(), `namespace "not-there" is not there: kubectl create namespace not-there`) {
		t.Errorf("got %v", err)
	}
}

// noSigner may not make the key of a namespace.
type noSigner struct{ client.Client }

func (c noSigner) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	if _, ok := o.(*corev1.Secret); ok && o.GetName() == infrav1.HandOverSignerSecretName {
		return errors.New("quota is exceeded")
	}
	return c.Client.Create(ctx, o, options...)
}

// A token that was made does not outlive what failed after it.
func TestTokenOfFailure(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	b := w.machine("quota")
	w.options.Client = noSigner{env.Client}
	results, _ := w.add(at(b.port))
	if r := results[0]; r.Step != provision.StepEnroll || r.Reason != provision.ReasonManagementRejected || !strings.Contains(r.Message, "quota is exceeded") {
		t.Errorf("%+v", r)
	}
	if left := w.tokens(); len(left) > 0 {
		t.Errorf("tokens are left: %v", left)
	}
}

// policy approves a Host as the Host controller does: after its machine-id was seen.
type policy struct {
	client.Client
	mu   sync.Mutex
	seen int
}

func (c *policy) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	err := c.Client.Get(ctx, key, o, options...)
	h, ok := o.(*infrav1.Host)
	if err != nil || !ok || h.Status.Inventory.MachineID == "" || h.Spec.Approval != infrav1.HostApprovalPending {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen++; c.seen == 3 {
		before := h.DeepCopy()
		h.Spec.Approval = infrav1.HostApprovalApproved
		return c.Patch(ctx, h, client.MergeFrom(before))
	}
	return nil
}

// A policy has the time to approve; what somebody denied is said at once.
func TestApprovals(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	for name, approval := range map[string]infrav1.HostApproval{"later": infrav1.HostApprovalPending, "denied": infrav1.HostApprovalDenied} {
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: w.options.Namespace, Name: name}}
		h.Spec.Approval = approval
		if err := env.Client.Create(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	later, denied := w.machine("later"), w.machine("denied")
	w.options.Client = &policy{Client: env.Client}
	results, _ := w.add(at(later.port), at(denied.port))
	if results[0].State != provision.StateAdded {
		t.Errorf("later: %+v", results[0])
	}
	if r := results[1]; r.Reason != provision.ReasonNotApproved || !strings.Contains(r.Message, "somebody denied the host") {
		t.Errorf("denied: %+v", r)
	}
}

// The connection ends before the unit went through it.
func TestUnitThatIsCutOff(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	b := w.machine("cut")
	w.watch(func(script string, stdin io.Reader) io.Reader {
		if strings.Contains(script, "daemon-reload") {
			return nil
		}
		return stdin
	})
	results, _ := w.add(at(b.port))
	if r := results[0]; r.Step != provision.StepEnroll || r.Reason != provision.ReasonCommandFailed || !strings.Contains(r.Message, "another digest") {
		t.Errorf("%+v", r)
	}
	if b.has("/etc/systemd/system/slipway-agent.service") {
		t.Error("there is a unit")
	}
}

// The install of a run that was interrupted goes on, and is waited for.
func TestBusyMachine(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	b := w.machine("busy")
	lock, err := os.Open(b.path("/var/lib"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	tries := 0
	w.watch(func(script string, stdin io.Reader) io.Reader {
		if strings.Contains(script, "software install") {
			if tries++; tries == 2 {
				_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN)
			}
		}
		return stdin
	})
	if results, _ := w.add(at(b.port)); results[0].State != provision.StateAdded || tries != 2 {
		t.Errorf("%d tries: %+v", tries, results[0])
	}
}

// The disk becomes full while software is sent: what arrived whole stays, and the same command
// goes on.
func TestDiskFills(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	b := w.machine("full")
	b.sh("mount -t tmpfs -o size=1g tmpfs /var/lib")
	var sent []string
	w.watch(func(script string, stdin io.Reader) io.Reader {
		if stdin != nil && strings.Contains(script, "/blobs/sha256/") {
			if sent = append(sent, script); len(sent) == 2 {
				b.sh("cat /dev/zero >/var/lib/filling || true")
			}
		}
		return stdin
	})
	results, _ := w.add(at(b.port))
	if r := results[0]; r.Step != provision.StepBundle || r.Reason != provision.ReasonNoSpace || !strings.Contains(r.Message, "its disk became full") || !strings.Contains(r.Remedy, "the same command goes on") {
		t.Errorf("%+v", r)
	}
	if b.has("/opt/slipway") || b.sh("find /var/lib -name '*.part'") != "" {
		t.Error("a part of something is left")
	}
	b.sh("rm /var/lib/filling")
	results, _ = w.add(at(b.port))
	if results[0].State != provision.StateAdded || len(sent) < 3 || sent[2] != sent[1] || slices.Contains(sent[2:], sent[0]) {
		t.Errorf("%+v; sent were %q", results[0], sent)
	}
}

// The disk becomes full while the agent installs what was sent.
func TestDiskFillsInInstall(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	b := w.machine("full-later")
	b.sh("mkdir -p /opt && mount -t tmpfs -o size=1g tmpfs /opt")
	filled := false
	w.watch(func(script string, stdin io.Reader) io.Reader {
		if strings.Contains(script, "software install") && !filled {
			b.sh("cat /dev/zero >/opt/filling || true")
			filled = true
		}
		return stdin
	})
	results, _ := w.add(at(b.port))
	if r := results[0]; r.Step != provision.StepSoftware || r.Reason != provision.ReasonNoSpace || !strings.Contains(r.Remedy, "the same command goes on") {
		t.Errorf("%+v", r)
	}
	b.sh("rm /opt/filling")
	if results, _ = w.add(at(b.port)); results[0].State != provision.StateAdded {
		t.Errorf("%+v", results[0])
	}
}

// A version that there is no bundle of is refused before any machine is asked.
func TestVersionOfBundles(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	_, err := provision.OpenBundles(filepath.Join(w.dir, "hostbundle"), filepath.Join(w.dir, "key.pub"), "v9.9.9")
	if err == nil || !strings.Contains(err.Error(), `--kubernetes-version: `) || !strings.Contains(err.Error(), "it has: "+testenv.Version) {
		t.Errorf("got %v", err)
	}
}

// What is wrong here is not laid to the management cluster.
func TestLocalFile(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	b := w.machine("local")
	program, err := agent()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(w.dir, "slipway-agent")
	if err := os.WriteFile(other, data, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := provision.OpenAgent(other)
	if err == nil {
		err = os.Remove(other)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.options.Agents = []*provision.Agent{a}
	results, _ := w.add(at(b.port))
	if r := results[0]; r.Step != provision.StepAgent || r.Reason != provision.ReasonLocalFile || !strings.Contains(r.Message, other) {
		t.Errorf("%+v", r)
	}
}
