package provision_test

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/enroll"
	"github.com/slipway-dev/slipway/internal/provision"
	"github.com/slipway-dev/slipway/internal/provision/remote"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// removal is the command as the test calls it.
func (w *world) removal() provision.RemoveOptions {
	w.t.Helper()
	return provision.RemoveOptions{
		Client: w.options.Client, Server: w.options.Server, Namespace: w.options.Namespace, Parallel: 4, Timeout: 5 * time.Minute, Dial: w.dialer(remote.Options{}).Dial,
	}
}

// remove runs the command; the steps that were done are by name of the Host.
func (w *world) remove(o provision.RemoveOptions, departures ...provision.Departure) ([]provision.Result, map[string][]provision.Step) {
	w.t.Helper()
	var mu sync.Mutex
	steps := map[string][]provision.Step{}
	o.Report = func(e provision.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Done && e.Err == nil {
			steps[e.Subject] = append(steps[e.Subject], e.Step)
		}
	}
	results, err := provision.Remove(w.t.Context(), o, departures)
	if err != nil {
		w.t.Fatal(err)
	}
	return results, steps
}

// files are all of the places where Slipway writes, with what tells whether they are the same.
func (b *bare) files() string {
	b.t.Helper()
	return b.sh(`{ find /etc /usr/local /opt /var/lib ! -type f -printf '%p %y %m %l\n'; find /etc /usr/local /opt /var/lib -type f -printf '%p %y %m %s\n'; ls -d /var/log/slipway* 2>&1; } | sort`)
}

// hosted makes a machine that enrolled, without what takes a bundle, and its Host.
func (w *world) hosted(name string) *bare {
	w.t.Helper()
	b := newBare(w.t, name)
	w.learn(b.port, b.key)
	program, err := agent()
	if err != nil {
		w.t.Fatal(err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		w.t.Fatal(err)
	}
	b.write("/usr/local/bin/slipway-agent", string(data))
	b.write("/etc/systemd/system/slipway-agent.service", string(config.AgentUnit))
	b.write("/etc/slipway/agent.yaml", "apiVersion: agent.slipway.dev/v1alpha1\nkind: AgentConfiguration\nnamespace: "+w.options.Namespace+"\nhostName: "+name+"\n")
	b.write("/var/lib/slipway-agent/identity.key", "")
	b.write("/var/lib/slipway-agent/kubeconfig", "clusters:\n- cluster:\n    server: "+w.options.Server+"\n")
	b.write("/run/units/slipway-agent", "")
	w.enrolled(name, strings.TrimSpace(b.read("/etc/machine-id")))
	w.proved(name)
	return b
}

// proved has the agent report that its host is clean.
func (w *world) proved(name string) {
	w.t.Helper()
	h := w.host(name)
	h.Status.BootID, h.Status.CleanProof = "boot", &infrav1.CleanProof{ClaimGeneration: h.Spec.ClaimGeneration, Time: metav1.Now()}
	h.Status.Inventory.Architecture, h.Status.Capacity = "amd64", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	if err := env.Client.Status().Update(w.t.Context(), h); err != nil {
		w.t.Fatal(err)
	}
}

// claim has a HostMachine take the host, which a pool owns or nobody.
func (w *world) claim(name string, pool bool) *infrav1.HostMachine {
	w.t.Helper()
	m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: w.options.Namespace, Name: "m-" + name}}
	m.Spec.ClaimID = "claim-" + name
	if pool {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: "HostMachinePool", Name: "pool", UID: "pool"}}
	}
	err := env.Client.Create(w.t.Context(), m)
	if err == nil {
		h := w.host(name)
		h.Spec.Claim = &infrav1.HostClaim{MachineName: m.Name, ClusterName: "c1", ClaimID: m.Spec.ClaimID}
		h.Spec.ClaimGeneration++
		err = env.Client.Update(w.t.Context(), h)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *world) gone(name string) bool {
	w.t.Helper()
	err := env.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.options.Namespace, Name: name}, &infrav1.Host{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err != nil
}

var fullRemoval = []provision.Step{
	provision.StepFind, provision.StepConnect, provision.StepFacts, provision.StepCheck, provision.StepCordon,
	provision.StepReset, provision.StepUninstall, provision.StepProve, provision.StepForget,
}

// What `host add` brought is gone without a trace, software and all, with the tokens that
// were for the host alone.
func TestRemove(t *testing.T) {
	w := newWorld(t)
	b := w.machine("leaves")
	before := b.files()
	if results, _ := w.add(at(b.port)); results[0].State != provision.StateAdded {
		t.Fatalf("%+v", results[0])
	}
	w.proved("leaves")
	for token, hosts := range map[string][]string{"aaaaaa.0123456789abcdef": {"leaves"}, "bbbbbb.0123456789abcdef": {"leaves", "stays"}} {
		if err := enroll.Ensure(t.Context(), env.Client, enroll.Token{Value: token, Namespace: w.options.Namespace, Hosts: hosts, Uses: 1, Life: time.Hour}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = enroll.Delete(context.WithoutCancel(t.Context()), env.Client, token) })
	}
	d := provision.Departure{Name: "leaves", Address: at(b.port)}
	results, steps := w.remove(w.removal(), d)
	if r := results[0]; r.State != provision.StateRemoved || len(r.Left) > 0 {
		t.Fatalf("%+v", r)
	}
	if !slices.Equal(steps["leaves"], fullRemoval) {
		t.Errorf("steps %v", steps)
	}
	if after := b.files(); after != before {
		t.Errorf("the file system was\n%s\nand is\n%s", before, after)
	}
	if b.has("/run/units/slipway-agent") || !w.gone("leaves") {
		t.Error("the agent runs, or its Host is there")
	}
	if tokens := w.tokens(); !slices.Equal(tokens, []string{"bootstrap-token-bbbbbb"}) {
		t.Errorf("tokens %v", tokens)
	}
	// Again: whoever names the machine has it looked at.
	results, steps = w.remove(w.removal(), d, provision.Departure{Name: "mistyped"})
	if r := results[0]; r.State != provision.StateRemoved || slices.Contains(steps["leaves"], provision.StepUninstall) {
		t.Errorf("again: %+v, %v", r, steps)
	}
	if r := results[1]; r.Reason != provision.ReasonNoHost || !strings.Contains(r.Remedy, "--ssh mistyped=") {
		t.Errorf("nobody: %+v", r)
	}
}

// disconnected has the Host controller judge that the agent is away.
func (w *world) disconnected(name string) {
	w.t.Helper()
	h := w.host(name)
	conditions.Set(h, metav1.Condition{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionFalse, Reason: infrav1.HostHeartbeatStaleReason})
	if err := env.Client.Status().Update(w.t.Context(), h); err != nil {
		w.t.Fatal(err)
	}
}

// unjudged is a Host that came without its status.
func (w *world) unjudged(name string) {
	w.t.Helper()
	h := w.host(name)
	h.Status.Conditions = nil
	if err := env.Client.Status().Update(w.t.Context(), h); err != nil {
		w.t.Fatal(err)
	}
}

// orphan has the machine of a host go without a reset.
func orphan(w *world, _ *bare, name string) {
	w.t.Helper()
	if err := env.Client.Delete(w.t.Context(), w.claim(name, true)); err != nil {
		w.t.Fatal(err)
	}
}

// unproved leaves a host that a machine was on without the proof that it is clean.
func unproved(w *world, _ *bare, name string) {
	w.t.Helper()
	h := w.host(name)
	h.Spec.ClaimGeneration++
	if err := env.Client.Update(w.t.Context(), h); err != nil {
		w.t.Fatal(err)
	}
}

// Whatever is wrong, the machine stays as it is, and its Host is there.
func TestRemoveRefuses(t *testing.T) {
	w := newWorld(t)
	for name, tc := range map[string]struct {
		spoil    func(w *world, b *bare, name string)
		evacuate bool
		detach   bool
		gone     bool
		address  string
		reason   provision.Reason
		says     string
		remedy   string
	}{
		"claimed": {spoil: func(w *world, _ *bare, name string) { w.claim(name, true) },
			reason: provision.ReasonClaimed, says: "HostMachine m-claimed of Cluster c1 has the host", remedy: "--evacuate"},
		"no-pool": {spoil: func(w *world, _ *bare, name string) { w.claim(name, false) }, evacuate: true,
			reason: provision.ReasonClaimed, says: "no pool replaces it", remedy: "delete the Machine that owns it"},
		"orphan":             {spoil: orphan, evacuate: true, reason: provision.ReasonNotClean, says: "is gone and did not request its reset", remedy: infrav1.ReleaseOrphanAnnotation + "=claim-orphan"},
		"orphan-not-emptied": {spoil: orphan, reason: provision.ReasonNotClean, says: "is gone and did not request its reset", remedy: infrav1.ReleaseOrphanAnnotation + "=claim-orphan-not-emptied"},
		// A Host that was moved or restored has no conditions before its controller judges it.
		"orphan-nobody-judged": {spoil: func(w *world, b *bare, name string) {
			orphan(w, b, name)
			w.unjudged(name)
		}, detach: true, evacuate: true, reason: provision.ReasonNotClean, says: "is gone and did not request its reset"},
		"orphan-dead": {spoil: func(w *world, b *bare, name string) {
			orphan(w, b, name)
			w.disconnected(name)
		}, detach: true, reason: provision.ReasonNotClean, says: "is gone and did not request its reset", remedy: "--no-ssh --evacuate"},
		"dirty": {spoil: unproved, reason: provision.ReasonNotClean, says: "has not verified that the host is clean"},
		"dirty-nobody-judged": {spoil: func(w *world, b *bare, name string) {
			unproved(w, b, name)
			w.unjudged(name)
		}, detach: true, reason: provision.ReasonNotClean, says: "has not verified that the host is clean"},
		"other-id": {spoil: func(_ *world, b *bare, _ string) { b.write("/etc/machine-id", "another\n") },
			reason: provision.ReasonOtherMachine, says: "that has machine-id ", remedy: "--ssh other-id="},
		"other-agent": {spoil: func(w *world, b *bare, _ string) {
			b.write("/etc/slipway/agent.yaml", "apiVersion: agent.slipway.dev/v1alpha1\nkind: AgentConfiguration\nnamespace: "+w.options.Namespace+"\nhostName: somebody\n")
		}, reason: provision.ReasonOtherMachine, says: "but somebody"},
		"other-namespace": {spoil: func(_ *world, b *bare, name string) {
			b.write("/etc/slipway/agent.yaml", "apiVersion: agent.slipway.dev/v1alpha1\nkind: AgentConfiguration\nnamespace: dev\nhostName: "+name+"\n")
		}, reason: provision.ReasonEnrolledElsewhere, says: "configured for namespace dev", remedy: "use -n"},
		"handed-over": {gone: true, spoil: func(_ *world, b *bare, _ string) {
			b.write("/var/lib/slipway-agent/kubeconfig", "clusters:\n- cluster:\n    server: https://other:6443\n")
		}, reason: provision.ReasonEnrolledElsewhere, says: "enrolled at https://other:6443", remedy: "--server"},
		"serves": {gone: true, spoil: func(w *world, b *bare, _ string) {
			j, err := journal.Open(b.path("/var/lib/slipway-agent/journal"))
			if err == nil {
				err = errors.Join(j.Update(func(s *journal.State) { s.ClaimID, s.BootstrappedClaimID = "c", "c" }), j.Close())
			}
			if err != nil {
				w.t.Fatal(err)
			}
		}, reason: provision.ReasonServes, says: "the host is a node, of claim c; nothing was changed"},
		"node-without-journal": {gone: true, spoil: func(_ *world, b *bare, _ string) { b.write("/var/lib/kubelet/config.yaml", "") },
			reason: provision.ReasonServes, says: "/var/lib/kubelet/config.yaml is there"},
		"away":       {address: "root@127.0.0.1:1", reason: provision.ReasonUnreachable, remedy: "--no-ssh removes the Host alone"},
		"no-address": {address: "none", reason: provision.ReasonNoAddress, says: "does not say where its machine is", remedy: "--ssh no-address="},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			b := w.hosted(name)
			if tc.spoil != nil {
				tc.spoil(&w, b, name)
			}
			if tc.gone {
				if err := env.Client.Delete(t.Context(), w.host(name)); err != nil {
					t.Fatal(err)
				}
			}
			d := provision.Departure{Name: name, Address: at(b.port)}
			switch tc.address {
			case "":
			case "none":
				d.Address = ""
			default:
				d.Address = tc.address
			}
			before := b.files()
			o := w.removal()
			o.Evacuate, o.Detach = tc.evacuate, tc.detach
			results, _ := w.remove(o, d)
			if r := results[0]; r.State != provision.StateFailed || r.Reason != tc.reason || !strings.Contains(r.Message, tc.says) || !strings.Contains(r.Remedy, tc.remedy) {
				t.Errorf("%+v", r)
			}
			if b.files() != before || !b.has("/run/units/slipway-agent") {
				t.Error("the machine was changed")
			}
			if w.gone(name) != tc.gone {
				t.Error("the Host was deleted")
			}
		})
	}
}

// A host of a pool is emptied first: the agent works until the host is proved clean.
func TestRemoveEvacuates(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	b := w.hosted("busy")
	m := w.claim("busy", true)
	dial := w.removal().Dial
	o := w.removal()
	looks := &looks{Client: o.Client}
	o.Client, o.Evacuate = looks, true
	// The Host tells where its machine is.
	o.Dial = func(ctx context.Context, address string) (provision.Machine, error) {
		if address != "192.0.2.7" {
			t.Errorf("asked %s", address)
		}
		return dial(ctx, at(b.port))
	}
	h := w.host("busy")
	h.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: "busy"}, {Type: clusterv1.MachineInternalIP, Address: "192.0.2.7"}}
	if err := env.Client.Status().Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	done := make(chan provision.Result, 1)
	go func() {
		results, err := provision.Remove(t.Context(), o, []provision.Departure{{Name: "busy"}})
		if err != nil {
			t.Error(err)
			results = make([]provision.Result, 1)
		}
		done <- results[0]
	}()
	poll.True(t, "the host is evacuated", func() bool { return ptr.Deref(w.host("busy").Spec.Evacuate, false) })
	// The pool deletes the machine, which requests the reset.
	w.change("busy", func(h *infrav1.Host) {
		h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredReset, OperationID: "reset"}
	})
	if err := env.Client.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	before := looks.hosts.Load()
	poll.True(t, "the command looks at the Host again", func() bool {
		select {
		case r := <-done:
			t.Fatalf("it is not clean: %+v", r)
		default:
		}
		return looks.hosts.Load() > before+2
	})
	if !b.has("/usr/local/bin/slipway-agent") || !b.has("/run/units/slipway-agent") {
		t.Fatal("the agent went before the host was clean")
	}
	// The manager ends the claim once the agent has proved it.
	w.proved("busy")
	w.change("busy", func(h *infrav1.Host) { h.Spec.Claim, h.Spec.Desired = nil, nil })
	if r := <-done; r.State != provision.StateRemoved || !w.gone("busy") || b.has("/usr/local/bin/slipway-agent") {
		t.Errorf("%+v", r)
	}
}

// looks counts how often Hosts are read.
type looks struct {
	client.Client
	hosts atomic.Int64
}

func (c *looks) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, ok := o.(*infrav1.Host); ok {
		c.hosts.Add(1)
	}
	return c.Client.Get(ctx, key, o, options...)
}

// change writes to a Host that others write to as well.
func (w *world) change(name string, change func(*infrav1.Host)) {
	w.t.Helper()
	h := w.host(name)
	before := h.DeepCopy()
	change(h)
	if err := env.Client.Patch(w.t.Context(), h, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// quick has the machine of a host request its reset and go after the Host was read, and the
// host be clean at the next look.
type quick struct {
	client.Client
	then []func()
}

func (c *quick) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, ok := o.(*infrav1.HostMachine); ok && len(c.then) > 0 {
		c.then[0]()
		c.then = c.then[1:]
	}
	return c.Client.Get(ctx, key, o, options...)
}

// The agent of a package takes away what it brought to the machine, and stays itself: it is the
// package manager's.
func TestRemoveWithAPackagedAgent(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	b := w.hosted("packaged")
	b.sh("mv /usr/local/bin/slipway-agent /usr/bin/ && mkdir -p /usr/lib/systemd/system && mv /etc/systemd/system/slipway-agent.service /usr/lib/systemd/system/ && " +
		"mkdir -p /etc/systemd/system/multi-user.target.wants && ln -s /usr/lib/systemd/system/slipway-agent.service /etc/systemd/system/multi-user.target.wants/")
	results, steps := w.remove(w.removal(), provision.Departure{Name: "packaged", Address: at(b.port)})
	if r := results[0]; r.State != provision.StateRemoved || len(r.Left) > 0 || !slices.Contains(steps["packaged"], provision.StepUninstall) {
		t.Errorf("%+v, steps %q", r, steps["packaged"])
	}
	if b.has("/var/lib/slipway-agent") || b.has("/etc/slipway") || !b.has("/usr/bin/slipway-agent") || b.has("/run/units/slipway-agent") {
		t.Errorf("the machine has\n%s", b.files())
	}
}

// A machine that goes in that moment left no orphan.
func TestMachineThatGoesMeanwhile(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	b := w.hosted("quick")
	m := w.claim("quick", true)
	o := w.removal()
	o.Evacuate = true
	o.Client = &quick{Client: env.Client, then: []func(){func() {
		w.change("quick", func(h *infrav1.Host) {
			h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredReset, OperationID: "reset"}
		})
		if err := env.Client.Delete(t.Context(), m); err != nil {
			t.Error(err)
		}
	}, func() {
		w.change("quick", func(h *infrav1.Host) { h.Spec.Claim, h.Spec.Desired = nil, nil })
		w.proved("quick")
	}}}
	results, _ := w.remove(o, provision.Departure{Name: "quick", Address: at(b.port)})
	if r := results[0]; r.State != provision.StateRemoved {
		t.Errorf("%+v", r)
	}
}

// late claims the host between the look of the command and its write.
type late struct {
	client.Client
	claim func()
	once  sync.Once
}

func (c *late) Patch(ctx context.Context, o client.Object, p client.Patch, options ...client.PatchOption) error {
	if _, ok := o.(*infrav1.Host); ok {
		c.once.Do(c.claim)
	}
	return c.Client.Patch(ctx, o, p, options...)
}

// A claim that comes meanwhile wins: the host is refused as one that was claimed before.
func TestClaimedMeanwhile(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	b := w.hosted("race")
	o := w.removal()
	o.Client = &late{Client: env.Client, claim: func() { w.claim("race", true) }}
	results, _ := w.remove(o, provision.Departure{Name: "race", Address: at(b.port)})
	if r := results[0]; r.Reason != provision.ReasonClaimed || r.Step != provision.StepCordon {
		t.Errorf("%+v", r)
	}
	if h := w.host("race"); h.Spec.Unschedulable != nil || !b.has("/usr/local/bin/slipway-agent") {
		t.Errorf("it was changed: %+v", h.Spec)
	}
}

// A machine that nobody reaches stays as it is, and what is left to do there is said. Of one
// that is dead, the end of its machine is enough.
func TestRemoveWithoutSSH(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	free, dead := w.hosted("free"), w.hosted("dead")
	m := w.claim("dead", true)
	w.change("dead", func(h *infrav1.Host) {
		h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredReset, OperationID: "reset"}
	})
	w.disconnected("dead")
	if err := env.Client.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	o := w.removal()
	o.Detach = true
	o.Dial = func(context.Context, string) (provision.Machine, error) {
		t.Error("it was asked")
		return nil, errors.New("asked")
	}
	results, _ := w.remove(o, provision.Departure{Name: "free"}, provision.Departure{Name: "dead"})
	for i, b := range []*bare{free, dead} {
		if r := results[i]; r.State != provision.StateDetached || r.Remedy != "on the machine, as root: /usr/local/bin/slipway-agent uninstall" || !w.gone(r.Name) {
			t.Errorf("%+v", r)
		}
		// The one command is enough.
		if out := b.sh("/usr/local/bin/slipway-agent uninstall"); !strings.Contains(out, "Nothing is left") || b.has("/var/lib/slipway-agent") {
			t.Error(out)
		}
	}
}

// held is a host that a hook holds back, until the command has looked twice.
type held struct {
	client.Client
	looks int
	pass  func()
}

func (c *held) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	h, ok := o.(*infrav1.Host)
	err := c.Client.Get(ctx, key, o, options...)
	if ok && ptr.Deref(h.Spec.Unschedulable, false) {
		if c.looks++; c.looks == 2 {
			c.pass()
		}
	}
	return err
}

// A hook that has yet to pass holds back the end of a host, too.
func TestRemoveWaitsForHooks(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	b := w.hosted("held")
	w.change("held", func(h *infrav1.Host) {
		h.Spec.ClaimGeneration = 1
		h.Annotations = map[string]string{runtimev1alpha1.PendingHooksAnnotation: "AfterHostRelease"}
	})
	w.proved("held")
	passed := false
	o := w.removal()
	o.Client = &held{Client: env.Client, pass: func() {
		if passed = b.has("/usr/local/bin/slipway-agent"); !passed {
			t.Error("the agent went before the hook passed")
		}
		w.change("held", func(h *infrav1.Host) { h.Annotations = nil })
	}}
	if results, _ := w.remove(o, provision.Departure{Name: "held", Address: at(b.port)}); results[0].State != provision.StateRemoved || !passed {
		t.Errorf("%+v", results[0])
	}
}

// What is somebody else's stays, and is told with the exit code; the Host is gone.
func TestRemoveTellsWhatIsLeft(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	b := w.hosted("shared")
	b.write("/etc/slipway/notes", "mine")
	b.write("/etc/systemd/system/slipway-agent.service.d/own.conf", "[Service]\n")
	results, _ := w.remove(w.removal(), provision.Departure{Name: "shared", Address: at(b.port)})
	r := results[0]
	if r.Reason != provision.ReasonLeft || len(r.Left) != 2 || r.Left[0].Path != "/etc/slipway" || !strings.Contains(r.Left[0].Why, "notes") ||
		r.Left[1].Path != "/etc/systemd/system/slipway-agent.service.d" || !w.gone("shared") || b.read("/etc/slipway/notes") != "mine" {
		t.Errorf("%+v", r)
	}
}

// errCut is a connection that was lost.
var errCut = errors.New("cut")

// mortal ends at a script: before it runs, or before anybody hears that it ran.
type mortal struct {
	provision.Machine
	count *int
	at    int
	after bool
}

func (m mortal) Run(ctx context.Context, script string, stdin io.Reader) (string, error) {
	*m.count++
	if *m.count == m.at && !m.after {
		return "", errCut
	}
	out, err := m.Machine.Run(ctx, script, stdin)
	if *m.count == m.at {
		return "", errCut
	}
	return out, err
}

// deaf hears nothing of the answer to its deletion of a Host.
type deaf struct{ client.Client }

func (c deaf) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	err := c.Client.Delete(ctx, o, options...)
	if _, ok := o.(*infrav1.Host); ok {
		return errors.Join(errCut, err)
	}
	return err
}

// Whenever the command is cut off, the same command comes to the end.
func TestRemoveIsCutOff(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	for n := 1; n <= 3; n++ {
		for _, after := range []bool{false, true} {
			name := "cut-" + string(rune('0'+n)) + map[bool]string{true: "-after", false: "-before"}[after]
			b := w.hosted(name)
			d := provision.Departure{Name: name, Address: at(b.port)}
			o, count := w.removal(), 0
			dial := o.Dial
			o.Dial = func(ctx context.Context, address string) (provision.Machine, error) {
				m, err := dial(ctx, address)
				return mortal{m, &count, n, after}, err
			}
			if results, _ := w.remove(o, d); results[0].State != provision.StateFailed || !errors.Is(results[0].Err, errCut) {
				t.Errorf("%s: %+v", name, results[0])
			}
			if w.gone(name) {
				t.Errorf("%s: the Host is gone, and by it what is to be done", name)
			}
			if results, _ := w.remove(w.removal(), d); results[0].State != provision.StateRemoved || !w.gone(name) || b.has("/var/lib/slipway-agent") {
				t.Errorf("%s, again: %+v", name, results[0])
			}
		}
	}
	b := w.hosted("deaf")
	d := provision.Departure{Name: "deaf", Address: at(b.port)}
	o := w.removal()
	o.Client = deaf{env.Client}
	if results, _ := w.remove(o, d); !errors.Is(results[0].Err, errCut) {
		t.Errorf("%+v", results[0])
	}
	if results, _ := w.remove(w.removal(), d); results[0].State != provision.StateRemoved || !w.gone("deaf") {
		t.Errorf("%+v", results[0])
	}
}
