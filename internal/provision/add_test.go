package provision_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/provision"
	"github.com/slipway-dev/slipway/internal/provision/remote"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
	"github.com/slipway-dev/slipway/test/fakehost/bundlesource"
)

var (
	env *testenv.Env
	// agent is the real slipway-agent, which the machines of the tests run.
	agent = sync.OnceValues(func() (string, error) {
		return shared.Program(context.Background(), "github.com/slipway-dev/slipway/cmd/slipway-agent")
	})
)

func TestMain(m *testing.M) {
	scheme := func(s *k8sruntime.Scheme) error {
		return errors.Join(clientgoscheme.AddToScheme(s), infrav1.AddToScheme(s))
	}
	os.Exit(testenv.Main(m, scheme, func(e *testenv.Env) error {
		env = e
		return nil
	}))
}

// world is a management cluster, and what is brought to machines.
type world struct {
	t       *testing.T
	options provision.Options
	dir     string
	known   string
	server  *httptest.Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	testenv.Skip(t)
	w := &world{t: t, dir: t.TempDir()}
	w.known = filepath.Join(w.dir, "known_hosts")
	// What machines reach by name. The agent sends it nothing before it is verified.
	w.server = httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(w.server.Close)
	program, err := agent()
	if err != nil {
		t.Fatal(err)
	}
	a, err := provision.OpenAgent(program)
	if err != nil {
		t.Fatal(err)
	}
	w.options = provision.Options{
		Client: env.Client, Namespace: env.Namespace(t), Agents: []*provision.Agent{a}, Unit: config.AgentUnit,
		Server:          strings.Replace(w.server.URL, "127.0.0.1", "example.com", 1),
		CA:              pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw}),
		IgnorePreflight: []string{"all"}, Parallel: 4, Timeout: 5 * time.Minute,
	}
	w.options.Bundles = w.bundles()
	return w
}

// bundles are signed ones of one small version.
func (w *world) bundles() *provision.Bundles {
	w.t.Helper()
	signer, _, public := bundlesource.NewKeys(w.t)
	writer, err := hostbundle.NewWriter(filepath.Join(w.dir, "hostbundle"), signer)
	if err != nil {
		w.t.Fatal(err)
	}
	program := make([]byte, 1<<20)
	_, _ = rand.Read(program)
	from := filepath.Join(w.dir, "program")
	if err := os.WriteFile(from, program, 0o600); err != nil {
		w.t.Fatal(err)
	}
	var components []hostbundle.Component
	for _, name := range []string{"containerd", "kubernetes"} {
		c, err := writer.Component(name, testenv.Version, []hostbundle.Source{{Path: name, From: from, Mode: 0o755}})
		if err != nil {
			w.t.Fatal(err)
		}
		components = append(components, c)
	}
	err = writer.Bundle(testenv.Version, hostbundle.Contents{KubernetesVersion: testenv.Version, Architecture: runtime.GOARCH, Components: components,
		Links: []hostbundle.Link{{Path: "/opt/slipway/kubernetes/" + testenv.Version + "/kubelet", Component: "kubernetes", Target: "kubernetes"}}})
	key := filepath.Join(w.dir, "key.pub")
	if err := errors.Join(err, writer.Close(), os.WriteFile(key, []byte(public), 0o600)); err != nil {
		w.t.Fatal(err)
	}
	b, err := provision.OpenBundles(filepath.Join(w.dir, "hostbundle"), key, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// machine makes one that this world knows the host key of.
func (w *world) machine(name string) *bare {
	w.t.Helper()
	b := newBare(w.t, name)
	b.write("/etc/hosts", "127.0.0.1 localhost example.com\n")
	w.learn(b.port, b.key)
	w.play(b)
	return b
}

func (w *world) learn(port string, key ssh.Signer) {
	w.t.Helper()
	f, err := os.OpenFile(w.known, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = fmt.Fprintln(f, knownhosts.Line([]string{at(port)}, key.PublicKey()))
	if err := errors.Join(err, f.Close()); err != nil {
		w.t.Fatal(err)
	}
}

func at(port string) string { return "127.0.0.1:" + port }

// play is what the agent and the Host controller do once the agent's unit was started:
// the Host gets its identity, and reports.
func (w *world) play(b *bare) {
	poll.Repeat(w.t, func(ctx context.Context) {
		if b.has("/run/units/slipway-agent") && b.has("/etc/slipway/bootstrap-kubeconfig") {
			w.report(ctx, b)
		}
	})
}

func (w *world) report(ctx context.Context, b *bare) {
	name := strings.TrimSpace(b.read("/var/lib/slipway-agent/host-name"))
	if name == "" {
		_, name, _ = strings.Cut(b.read("/etc/slipway/agent.yaml"), "hostName: ")
		name, _, _ = strings.Cut(name, "\n")
	}
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: w.options.Namespace, Name: name}}
	if err := client.IgnoreAlreadyExists(env.Client.Create(ctx, h)); err != nil {
		return
	}
	if env.Client.Get(ctx, client.ObjectKeyFromObject(h), h) != nil {
		return
	}
	h.Spec.HostID = testenv.HostID(h.Namespace, h.Name)
	if env.Client.Update(ctx, h) != nil {
		return
	}
	h.Status.Phase = infrav1.HostPhaseAvailable
	h.Status.Inventory.MachineID = strings.TrimSpace(b.read("/etc/machine-id"))
	conditions.Set(h, metav1.Condition{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue, Reason: "HeartbeatFresh"})
	if env.Client.Status().Update(ctx, h) != nil {
		return
	}
	b.write("/var/lib/slipway-agent/identity.key", "")
	b.write("/var/lib/slipway-agent/kubeconfig", "clusters:\n- cluster:\n    server: "+w.options.Server+"\n")
	_ = os.Remove(b.path("/etc/slipway/bootstrap-kubeconfig"))
}

func (w *world) dialer(o remote.Options) *remote.Dialer {
	w.t.Helper()
	key := filepath.Join(w.dir, "identity")
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err == nil {
		err = keyutil.WriteKey(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Setenv("SSH_AUTH_SOCK", "")
	o.IdentityFiles, o.User = []string{key}, "root"
	if o.KnownHosts == "" {
		o.KnownHosts = w.known
	}
	d, err := remote.New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = d.Close() })
	return d
}

// add runs the command; the steps that were done are by address.
func (w *world) add(addresses ...string) ([]provision.Result, map[string][]provision.Step) {
	w.t.Helper()
	if w.options.Dial == nil {
		w.options.Dial = w.dialer(remote.Options{}).Dial
	}
	var mu sync.Mutex
	steps := map[string][]provision.Step{}
	w.options.Report = func(e provision.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Done && e.Err == nil {
			steps[e.Subject] = append(steps[e.Subject], e.Step)
		}
	}
	results, err := provision.Add(w.t.Context(), w.options, addresses)
	if err != nil {
		w.t.Fatal(err)
	}
	return results, steps
}

func (w *world) host(name string) *infrav1.Host {
	w.t.Helper()
	h := &infrav1.Host{}
	if err := env.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.options.Namespace, Name: name}, h); err != nil {
		w.t.Fatal(err)
	}
	return h
}

// tokens that are left of the world's namespace.
func (w *world) tokens() []string {
	w.t.Helper()
	list := &corev1.SecretList{}
	if err := env.Client.List(w.t.Context(), list, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		w.t.Fatal(err)
	}
	var left []string
	for _, s := range list.Items {
		if s.Type == corev1.SecretTypeBootstrapToken && strings.Contains(string(s.Data["auth-extra-groups"]), ":"+w.options.Namespace) {
			left = append(left, s.Name)
		}
	}
	return left
}

var fullRun = []provision.Step{
	provision.StepConnect, provision.StepFacts, provision.StepCheck, provision.StepAgent, provision.StepPreflight, provision.StepBundle,
	provision.StepSoftware, provision.StepFitness, provision.StepHost, provision.StepEnroll, provision.StepAvailable,
}

// From nothing to an available host, and a second time with nothing left to do.
func TestBareMachine(t *testing.T) {
	w := newWorld(t)
	b := w.machine("bare-1")
	w.options.Labels, w.options.Approve = map[string]string{"rack": "2"}, true
	w.options.Places = map[string]provision.Place{at(b.port): {Labels: map[string]string{"rack": "1"}, FailureDomain: "r1"}}
	results, steps := w.add(at(b.port))
	if r := results[0]; r.State != provision.StateAdded || r.Name != "bare-1" {
		t.Fatalf("%+v", r)
	}
	if !slices.Equal(steps[at(b.port)], fullRun) {
		t.Errorf("steps %v", steps)
	}
	h := w.host("bare-1")
	if h.Labels["rack"] != "1" || h.Spec.FailureDomain != "r1" || h.Spec.Approval != infrav1.HostApprovalApproved {
		t.Errorf("the Host is %+v of labels %v", h.Spec, h.Labels)
	}
	if out := b.sh("/usr/local/bin/slipway-agent software list -o json"); !strings.Contains(out, `"state": "Installed"`) {
		t.Errorf("software %s", out)
	}
	key, err := os.ReadFile(filepath.Join(w.dir, "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if !managed(b) || b.read("/etc/slipway/hostbundle.pub") != string(key) {
		t.Errorf("the agent is to install versions by the key, and has %s", b.read("/etc/slipway/agent.yaml"))
	}
	if unit := b.read("/etc/systemd/system/slipway-agent.service"); unit != string(config.AgentUnit) {
		t.Errorf("the unit is %q", unit)
	}
	if log := b.read("/run/systemctl.log"); !strings.Contains(log, "enable slipway-agent.service") {
		t.Errorf("systemctl was told %s", log)
	}
	if left := w.tokens(); len(left) > 0 || b.has("/var/lib/slipway-host-add") {
		t.Errorf("left: tokens %v, files %v", left, b.has("/var/lib/slipway-host-add"))
	}
	sent := b.received.Load()
	results, steps = w.add(at(b.port))
	want := []provision.Step{provision.StepConnect, provision.StepFacts, provision.StepCheck, provision.StepHost, provision.StepAvailable}
	if r := results[0]; r.State != provision.StateUnchanged || !slices.Equal(steps[at(b.port)], want) || b.received.Load() != sent {
		t.Errorf("again: %+v, steps %v, %d bytes", r, steps, b.received.Load()-sent)
	}
}

// One machine is bad, in each way; the other one of the command is added all the same.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	for i, tc := range []struct {
		name   string
		user   string
		spoil  func(*bare)
		change func(*world)
		reason provision.Reason
		says   string
		remedy string
	}{
		{name: "not Linux", spoil: func(b *bare) { b.write("/usr/local/sbin/uname", "#!/bin/sh\necho FreeBSD\n") },
			reason: provision.ReasonUnsupportedSystem, says: "it runs FreeBSD", remedy: "Linux"},
		{name: "architecture", spoil: func(b *bare) {
			b.write("/usr/local/sbin/uname", "#!/bin/sh\n[ \"$1\" = -m ] && echo s390x || echo Linux\n")
		}, reason: provision.ReasonArchitecture, says: "it is s390x", remedy: "--agent"},
		{name: "no systemd", spoil: func(b *bare) { b.sh("rmdir /run/systemd/system") },
			reason: provision.ReasonNoSystemd, says: "was not booted with systemd", remedy: "boot it with systemd"},
		{name: "no space", spoil: func(b *bare) { b.sh("mount -t tmpfs -o size=64m tmpfs /var/lib") },
			reason: provision.ReasonNoSpace, says: "MiB are free below /var/lib", remedy: "make room"},
		{name: "clock", spoil: func(b *bare) {
			b.write("/usr/local/sbin/date", "#!/bin/sh\necho $(($(/usr/bin/date +%s) - 3600))\n")
		}, reason: provision.ReasonClockSkewed, says: "behind the one of this machine", remedy: "timedatectl"},
		{name: "elsewhere", spoil: func(b *bare) {
			b.write("/var/lib/slipway-agent/identity.key", "")
			b.write("/var/lib/slipway-agent/kubeconfig", "clusters:\n- cluster:\n    server: https://other:6443\n")
		}, reason: provision.ReasonEnrolledElsewhere, says: "enrolled at https://other:6443", remedy: "give it with --server; otherwise hand it over"},
		{name: "namespace", spoil: func(b *bare) { b.write("/etc/slipway/agent.yaml", "namespace: other\n") },
			reason: provision.ReasonEnrolledElsewhere, says: "namespace other", remedy: "hand it over"},
		{name: "runtime", spoil: func(b *bare) { b.write("/run/units/containerd", "") },
			reason: provision.ReasonForeignRuntime, says: "not Slipway's", remedy: "systemctl disable --now containerd"},
		{name: "name", spoil: func(b *bare) { b.sh("hostname localhost") },
			reason: provision.ReasonHostName, says: `its name is "localhost"`, remedy: "hostnamectl"},
		{name: "name taken", spoil: func(*bare) {
			h := testenv.NewHost(w.t, env.Client, w.options.Namespace, "bad-9", time.Now())
			h.Report(w.t, func(s *infrav1.HostStatus) { s.Inventory.MachineID = "another" })
		}, reason: provision.ReasonNameTaken, says: "belongs to another machine", remedy: "hostnamectl"},
		{name: "installed anew", spoil: func(b *bare) {
			h := testenv.NewHost(w.t, env.Client, w.options.Namespace, "bad-10", time.Now())
			h.Report(w.t, func(s *infrav1.HostStatus) { s.Inventory.MachineID = strings.TrimSpace(b.read("/etc/machine-id")) })
		}, reason: provision.ReasonNameTaken, says: "this one has no key of it", remedy: "delete host bad-10"},
		{name: "no root", user: "nobody@", spoil: func(*bare) {}, reason: provision.ReasonNoRoot, says: "without a password", remedy: "NOPASSWD"},
		{name: "stranger", user: "stranger@", spoil: func(*bare) {}, reason: provision.ReasonLoginRefused, says: "none of your keys", remedy: "ssh-copy-id"},
		{name: "preflight", spoil: func(b *bare) { b.write("/etc/kubernetes/kubelet.conf", "") },
			change: func(w *world) { w.options.IgnorePreflight = nil }, reason: provision.ReasonPreflight, says: "clean: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			good := *w
			good.t = t
			bad := good.machine(fmt.Sprintf("bad-%d", i))
			tc.spoil(bad)
			if tc.change != nil {
				tc.change(&good)
			}
			results, _ := good.add(tc.user + at(bad.port))
			r := results[0]
			if r.State != provision.StateFailed || r.Reason != tc.reason || !strings.Contains(r.Message, tc.says) || !strings.Contains(r.Remedy, tc.remedy) {
				t.Errorf("%+v", r)
			}
			if bad.has("/usr/local/bin/slipway-agent") || bad.has("/opt/slipway") || bad.has("/etc/slipway/bootstrap-kubeconfig") || bad.has("/run/units/slipway-agent") {
				t.Error("the machine was changed")
			}
			if left := good.tokens(); len(left) > 0 {
				t.Errorf("tokens are left: %v", left)
			}
		})
	}
}

// A machine that fails holds up no other, and one with two addresses is one.
func TestSeveralMachines(t *testing.T) {
	w := newWorld(t)
	good, bad := w.machine("good"), w.machine("bad")
	bad.sh("rmdir /run/systemd/system")
	w.options.Provided = true
	second := good.listen()
	w.learn(second, good.key)
	results, _ := w.add(at(good.port), at(bad.port), at(second), "127.0.0.1:1")
	if results[1].Reason != provision.ReasonNoSystemd || results[3].Reason != provision.ReasonUnreachable {
		t.Errorf("%+v", results)
	}
	states := []provision.State{results[0].State, results[2].State}
	slices.Sort(states)
	if !slices.Equal(states, []provision.State{provision.StateAdded, provision.StateSame}) {
		t.Errorf("of one machine: %+v, %+v", results[0], results[2])
	}
	if managed(good) || good.has("/etc/slipway/hostbundle.pub") {
		t.Errorf("the operator installs versions, and the agent has %s", good.read("/etc/slipway/agent.yaml"))
	}
}

// managed says whether the agent of the machine is to install versions.
func managed(b *bare) bool {
	return strings.HasSuffix(b.read("/etc/slipway/agent.yaml"), "\nsoftware:\n  management: Managed\n")
}

// A bundle that is damaged, or signed by somebody else, reaches no machine.
func TestBundleIsVerifiedHere(t *testing.T) {
	w := newWorld(t)
	b := w.machine("bare-2")
	blobs, err := filepath.Glob(filepath.Join(w.dir, "hostbundle", "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, blob := range blobs {
		if info, err := os.Stat(blob); err == nil && info.Size() > 1<<19 {
			f, err := os.OpenFile(blob, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt([]byte("damaged"), 1000)
			}
			if err = errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	results, _ := w.add(at(b.port))
	if r := results[0]; r.Reason != provision.Reason(hostbundle.ReasonCorrupt) || b.received.Load() > 0 {
		t.Errorf("%+v, %d bytes were sent", r, b.received.Load())
	}
}

// A connection that is lost in the middle of the bundle: the next run sends the rest.
func TestLostConnection(t *testing.T) {
	w := newWorld(t)
	b := w.machine("bare-3")
	program, err := agent()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	b.cutAfter.Store(info.Size() + 1<<20 + 1<<19)
	results, _ := w.add(at(b.port))
	if r := results[0]; r.State != provision.StateFailed || r.Step != provision.StepBundle || r.Reason != provision.ReasonUnreachable || !strings.Contains(r.Remedy, "it goes on") {
		t.Fatalf("%+v", r)
	}
	b.cutAfter.Store(0)
	before := b.received.Load()
	results, steps := w.add(at(b.port))
	if r := results[0]; r.State != provision.StateAdded || slices.Contains(steps[at(b.port)], provision.StepAgent) {
		t.Errorf("%+v, %v", r, steps)
	}
	if sent := b.received.Load() - before; sent > 3<<19 {
		t.Errorf("%d bytes were sent again", sent)
	}
}

// A machine that has the software already gets the keys all the same.
func TestSoftwareThatIsThere(t *testing.T) {
	w := newWorld(t)
	b := w.machine("bare-6")
	server := w.options.Server
	w.options.Server = "https://example.com:1"
	if results, _ := w.add(at(b.port)); results[0].Step != provision.StepEnroll {
		t.Fatalf("%+v", results)
	}
	b.sh("cp /var/lib/slipway-host-add/slipway-agent /usr/local/bin/ && rm -rf /var/lib/slipway-host-add")
	w.options.Server = server
	results, steps := w.add(at(b.port))
	if results[0].State != provision.StateAdded || slices.Contains(steps[at(b.port)], provision.StepBundle) || !managed(b) || !b.has("/etc/slipway/hostbundle.pub") {
		t.Errorf("%+v, %v, the agent has %s", results, steps, b.read("/etc/slipway/agent.yaml"))
	}
}

// Ctrl-C while the Host is waited for deletes the token.
func TestInterrupted(t *testing.T) {
	w := newWorld(t)
	b := w.machine("bare-4")
	// The agent never starts.
	b.write("/usr/local/sbin/systemctl", "#!/bin/sh\necho \"$*\" >>/run/systemctl.log\n[ \"$1\" != --quiet ] || [ \"$2\" = enable ]\n")
	ctx, cancel := context.WithCancel(t.Context())
	w.options.Dial = w.dialer(remote.Options{}).Dial
	done := make(chan []provision.Result)
	go func() {
		results, err := provision.Add(ctx, w.options, []string{at(b.port)})
		if err != nil {
			t.Error(err)
		}
		done <- results
	}()
	poll.True(t, "the agent was started, with a token", func() bool {
		return len(w.tokens()) == 1 && strings.Contains(b.read("/run/systemctl.log"), "restart slipway-agent")
	})
	cancel()
	r := (<-done)[0]
	if r.Reason != provision.ReasonInterrupted || !strings.Contains(r.Remedy, "the same command goes on") || len(w.tokens()) > 0 {
		t.Errorf("%+v, tokens %v", r, w.tokens())
	}
	b.write("/usr/local/sbin/systemctl", systemctl)
	// The agent had asked, and the management cluster had decided.
	b.write("/var/lib/slipway-agent/identity.key", "")
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: w.options.Namespace, Name: "bare-4"}}
	h.Spec.HostID = testenv.HostID(h.Namespace, h.Name)
	if err := env.Client.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if results, _ := w.add(at(b.port)); results[0].State != provision.StateAdded {
		t.Errorf("again: %+v", results[0])
	}
}

func TestHostKeys(t *testing.T) {
	w := newWorld(t)
	b := newBare(t, "keys")
	dial := func(known string) provision.Result {
		w.options.Dial = w.dialer(remote.Options{KnownHosts: known}).Dial
		results, _ := w.add(at(b.port))
		return results[0]
	}
	unknown := dial(filepath.Join(w.dir, "none"))
	fingerprint := ssh.FingerprintSHA256(b.key.PublicKey())
	if unknown.Reason != provision.ReasonHostKeyUnknown || !strings.Contains(unknown.Message, fingerprint) || !strings.Contains(unknown.Remedy, "ssh-keyscan -p "+b.port+" 127.0.0.1 >>"+filepath.Join(w.dir, "none")) {
		t.Errorf("unknown: %+v", unknown)
	}
	w.learn(b.port, newKey(t))
	changed := dial(w.known)
	if changed.Reason != provision.ReasonHostKeyChanged || !strings.Contains(changed.Remedy, "ssh-keygen -R '[127.0.0.1]:"+b.port+"'") {
		t.Errorf("changed: %+v", changed)
	}
}

// Through a jump host, whose key and whose users count as well.
func TestJump(t *testing.T) {
	w := newWorld(t)
	jump, b := w.machine("jump"), w.machine("inner")
	d := w.dialer(remote.Options{Jump: at(jump.port)})
	m, err := d.Dial(t.Context(), at(b.port))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := m.Run(t.Context(), "cat; hostname; exit 3", strings.NewReader("it's $HOME\n")); out != "it's $HOME\ninner\n" || !strings.Contains(fmt.Sprint(err), "exit status 3") {
		t.Errorf("%q, %v", out, err)
	}
	if err := m.Close(); err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	var p *provision.Problem
	if _, err := w.dialer(remote.Options{Jump: "stranger@" + at(jump.port)}).Dial(t.Context(), at(b.port)); !errors.As(err, &p) || p.Reason != provision.ReasonLoginRefused {
		t.Errorf("got %v", err)
	}
}
