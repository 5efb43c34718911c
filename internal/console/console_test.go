package console_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/console"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	scheme := func(s *runtime.Scheme) error {
		return errors.Join(clientgoscheme.AddToScheme(s), clusterv1.AddToScheme(s), addonsv1.AddToScheme(s), infrav1.AddToScheme(s), lifecyclev1.AddToScheme(s), runtimev1.AddToScheme(s), runtimev1alpha1.AddToScheme(s))
	}
	os.Exit(testenv.Main(m, scheme, func(e *testenv.Env) error {
		env = e
		return nil
	}))
}

// paths are those that the console asked the API server for.
type paths struct {
	mu   sync.Mutex
	seen []string
}

func (p *paths) record(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		p.mu.Lock()
		p.seen = append(p.seen, r.Method+" "+r.URL.Path)
		p.mu.Unlock()
		return next.RoundTrip(r)
	})
}

func (p *paths) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.seen...)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// running is a console with the browser that has its session.
type running struct {
	*http.Client
	base string
	// link is what was printed.
	link  string
	asked *paths
	// stop ends it, as the end of the test does.
	stop func()
}

// start runs a console of a namespace with the rights of a user, an administrator when it
// is empty, and opens it.
func start(t *testing.T, user, namespace string) *running {
	t.Helper()
	c := closed(t, user, namespace)
	if code, _ := c.get(t, c.link[len(c.base):]); code != http.StatusOK {
		t.Fatalf("the address that was printed answers %d", code)
	}
	return c
}

// closed is a console that nobody has opened yet.
func closed(t *testing.T, user, namespace string) *running {
	t.Helper()
	testenv.Skip(t)
	c := &running{asked: &paths{}}
	config := rest.CopyConfig(env.Config)
	config.Impersonate.UserName = user
	config.Wrap(c.asked.record)
	own, err := client.NewWithWatch(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	// What a page does not learn from a watch is not to come by a heartbeat.
	shown, err := console.Listen(ctx, console.WithoutHeartbeat(console.Config{Address: console.DefaultAddress, Rest: config, Client: own, Namespace: namespace, Name: "the test", Kubeconfig: func(_ context.Context, _ client.Reader, of client.ObjectKey) ([]byte, error) {
		return []byte("kubeconfig of " + of.String()), nil
	}}))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	go func() { served <- shown.Serve(ctx) }()
	c.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(c.stop)
	link, err := url.Parse(shown.URL())
	if err != nil {
		t.Fatal(err)
	}
	c.link, c.base = shown.URL(), "http://"+link.Host
	c.Client = browser(t)
	return c
}

// browser has cookies, and follows no redirects.
func browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (c *running) get(t *testing.T, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	code, text, _ := send(t, c.Client, r)
	return code, text
}

// page is one that must be there.
func (c *running) page(t *testing.T, path string) string {
	t.Helper()
	code, text := c.get(t, path)
	if code != http.StatusOK {
		t.Fatalf("%s answers %d:\n%s", path, code, text)
	}
	return text
}

func send(t *testing.T, c *http.Client, r *http.Request) (int, string, http.Header) {
	t.Helper()
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header
}

func want(t *testing.T, page, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", page, part, text)
		}
	}
}

// live opens the stream of a page, and returns what it sends.
func (c *running) live(t *testing.T, path string) <-chan event {
	t.Helper()
	_, address, ok := strings.Cut(c.page(t, path), `sse-connect="`)
	address, _, _ = strings.Cut(address, `"`)
	if !ok {
		t.Fatalf("%s is not live", path)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+strings.ReplaceAll(address, "&amp;", "&"), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("the stream of %s answers %d, %s", path, response.StatusCode, kind)
	}
	events := make(chan event, 100)
	go func() {
		defer close(events)
		var e event
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 16<<20)
		lines.Split(eventLines)
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case lines.Text() == "" && e.name != "":
				events <- e
				e = event{}
			case field == "event":
				e.name = value
			case field == "data":
				e.data += value + "\n"
			}
		}
	}()
	return events
}

type event struct{ name, data string }

// eventLines splits as a browser does, for which a carriage return alone ends a line.
func eventLines(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if i := bytes.IndexAny(data, "\r\n"); i >= 0 {
		return i + 1, data[:i], nil
	}
	return bufio.ScanLines(data, atEOF)
}

// until waits for an event that has what is looked for.
func until(t *testing.T, events <-chan event, name, part string) {
	t.Helper()
	last := event{}
	for {
		e := poll.Receive(t, fmt.Sprintf("an event %s with %q; last:\n%s", name, part, last.data), events)
		switch {
		case e == (event{}):
			t.Fatalf("the stream ended without %q; last:\n%s", part, last.data)
		case e.name == name && strings.Contains(e.data, part):
			return
		}
		last = e
	}
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := env.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// inRack is a host of a rack that a machine of the test's cluster has, or that is free.
func inRack(rack, machine string) func(*infrav1.Host) {
	return func(h *infrav1.Host) {
		h.Spec.FailureDomain = rack
		if machine != "" {
			h.Spec.Claim = &infrav1.HostClaim{ClusterName: testenv.ClusterName, MachineName: machine, ClaimID: "claim-of-" + machine}
			h.Spec.Desired = &infrav1.HostDesired{OperationID: "op", Phase: infrav1.HostDesiredBootstrapped, Bootstrapped: ptr.To(true)}
			h.Spec.ClaimGeneration = 1
		}
	}
}

// cluster makes a Cluster with a machine of the control plane on a host, one machine that
// waits, and a free host.
func cluster(t *testing.T, namespace string) (taken, free *testenv.Agent) {
	t.Helper()
	testenv.NewCluster(t, env.Client, namespace)
	m := testenv.NewMachine(t, env.Client, namespace, "cp-1", func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
		m.Labels = map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName, clusterv1.MachineControlPlaneLabel: ""}
	})
	taken = testenv.NewHost(t, env.Client, namespace, "host-1", time.Now(), inRack("rack-a", "cp-1"))
	free = testenv.NewHost(t, env.Client, namespace, "host-2", time.Now(), inRack("rack-b", ""))
	m.Status.HostRef.Name = "host-1"
	if err := env.Client.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	machine := &clusterv1.Machine{}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(m), machine); err != nil {
		t.Fatal(err)
	}
	machine.Status.NodeRef.Name, machine.Status.Phase = "node-of-host-1", "Running"
	machine.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineNodeReadyCondition, Status: "True", Reason: "Ready", LastTransitionTime: metav1.Now()}}
	if err := env.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	waiting := testenv.NewMachine(t, env.Client, namespace, "worker-1")
	waiting.Status.Conditions = []metav1.Condition{{Type: clusterv1.ReadyCondition, Status: "False", Reason: "NoHost", Message: "no host has 64 GiB <of memory>", LastTransitionTime: metav1.Now()}}
	if err := env.Client.Status().Update(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	return taken, free
}

// pill is how a state is shown.
func pill(role, word string) string {
	return fmt.Sprintf(`<span class="pill %s"><svg aria-hidden="true"><use href="#i-%s"/></svg>%s</span>`, role, role, word)
}

func TestPagesShowWhatIsThere(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	taken, _ := cluster(t, namespace)
	taken.Report(t, func(s *infrav1.HostStatus) { s.Inventory.KernelVersion = "6.1.0-test" })
	create(t, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "e1"}, Type: corev1.EventTypeWarning, Reason: "Unplugged", Message: "somebody pulled the cable",
		InvolvedObject: corev1.ObjectReference{APIVersion: infrav1.GroupVersion.String(), Kind: "Host", Namespace: namespace, Name: "host-1"}, LastTimestamp: metav1.Now(),
	}, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "e2"}, Reason: "Elsewhere", Message: "about another host",
		InvolvedObject: corev1.ObjectReference{APIVersion: infrav1.GroupVersion.String(), Kind: "Host", Namespace: namespace, Name: "host-2"}, LastTimestamp: metav1.Now(),
	})
	c := start(t, "", namespace)
	host := "/hosts/" + namespace + "/host-1"
	want(t, "the fleet", c.page(t, "/hosts"), "<b>2</b> hosts", ">rack-a</option>", ">rack-b</td>", `href="`+host+`"`, "c1/cp-1", pill("free", "Available"), pill("ok", "Running"))
	want(t, "the racks", c.page(t, "/hosts?racks=1"), `class="u free"`, `title="host-2: Available"`, "1 free of 1")
	want(t, "the overview", c.page(t, "/"), ">rack-a</a>", `title="host-1: Running"`, `href="/clusters/`+namespace+`/c1"`, "checks of 2 hosts and 1 clusters found no problem", "somebody pulled the cable")
	want(t, "the filtered fleet", c.page(t, "/hosts?state=Available"), "1 of 2 hosts", ">host-2</a>")
	if text := c.page(t, "/hosts?q=CP-1"); strings.Contains(text, ">host-2</a>") || !strings.Contains(text, ">host-1</a>") {
		t.Errorf("what has cp-1:\n%s", text)
	}
	text := c.page(t, host)
	want(t, "the host", text, "6.1.0-test", "AgentConnected", "Unplugged", "somebody pulled the cable", "node-of-host-1", "rack-a", `href="/clusters/`+namespace+`/c1"`)
	if strings.Contains(text, "about another host") {
		t.Error("the host shows events of another one")
	}
	want(t, "the clusters", c.page(t, "/clusters"), ">c1</a>", "worker-1: no host has 64 GiB &lt;of memory&gt;")
	want(t, "the cluster", c.page(t, "/clusters/"+namespace+"/c1"), "Control plane", "cp-1", `href="`+host+`"`, "node-of-host-1", "worker-1", `href="/placement/`+namespace+`/worker-1"`, "no host has 64 GiB &lt;of memory&gt;")
	want(t, "the activity", c.page(t, "/activity"), "Unplugged", "somebody pulled the cable", "Elsewhere", `href="`+host+`"`, "<b>1</b> warnings")
	if text := c.page(t, "/activity?warnings=1&q=cable"); !strings.Contains(text, "Unplugged") || strings.Contains(text, "Elsewhere") {
		t.Errorf("the warnings with cable:\n%s", text)
	}
	want(t, "the search", c.page(t, "/find?q=HOST-1"), `href="`+host+`"`, `href="/clusters/`+namespace+`/c1"`, "node node-of-host-1")
	want(t, "the placement", c.page(t, "/placement/"+namespace+"/worker-1"), "Why hosts do not fit", ">host-1</a>", `href="/hosts/`+namespace+`/host-2"`, "claimed")
	for _, path := range []string{"/hosts/" + namespace + "/nobody", "/hosts/" + namespace + "/nobody/approve", "/pools/" + namespace + "/none", "/placement/" + namespace + "/nobody", "/clusters/" + namespace + "/none", "/runs/" + namespace + "/none"} {
		if code, text := c.get(t, path); code != http.StatusNotFound || !strings.Contains(text, "not found") {
			t.Errorf("%s answers %d:\n%s", path, code, text)
		}
	}
}

// pool is a machine pool of the test's cluster with one member, which has no host.
func pool(t *testing.T, namespace string) *infrav1.HostMachinePool {
	t.Helper()
	machinePool, pool := testenv.NewMachinePool(t, env.Client, namespace, "workers", 1, func(_ *clusterv1.MachinePool, p *infrav1.HostMachinePool) {
		p.Labels[clusterv1.ClusterNameLabel] = testenv.ClusterName
	})
	testenv.NewMember(t, env.Client, machinePool, pool, "workers-1")
	return pool
}

func TestAPoolShowsItsRolloutAsItGoes(t *testing.T) {
	namespace := env0(t)
	testenv.NewCluster(t, env.Client, namespace)
	p := pool(t, namespace)
	c := start(t, "", namespace)
	path := "/pools/" + namespace + "/workers"
	want(t, "the cluster", c.page(t, "/clusters/"+namespace+"/c1"), `href="`+path+`"`)
	want(t, "the pool", c.page(t, path), "workers-1", `href="/placement/`+namespace+`/workers-1"`, `href="/clusters/`+namespace+`/c1"`)
	rollout := c.live(t, path)
	p.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.RollingOutCondition, Status: metav1.ConditionTrue, Reason: clusterv1.RollingOutReason, Message: "waits until <workers-2> is available", LastTransitionTime: metav1.Now(),
	}}
	if err := env.Client.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	until(t, rollout, "page", "waits until &lt;workers-2&gt; is available")
}

func TestChangesArriveWithoutAReload(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	taken, free := cluster(t, namespace)
	c := start(t, "", namespace)
	fleet, host, tree := c.live(t, "/hosts?state=HostQuarantined"), c.live(t, "/hosts/"+namespace+"/host-2"), c.live(t, "/clusters/"+namespace+"/c1")
	free.Report(t, func(s *infrav1.HostStatus) { s.CleanProof, s.Residue = nil, []string{"/etc/kubernetes"} })
	until(t, fleet, "page", ">host-2</a>")
	until(t, host, "page", "Quarantined")
	taken.Connect(t, false)
	until(t, tree, "page", "HostDisconnected")
	// No text of an object passes for a field of the stream.
	free.Report(t, func(s *infrav1.HostStatus) {
		s.Inventory.OperatingSystem = "a\r\revent: end\rdata: b\n\nevent: end\n\n"
	})
	until(t, host, "page", "event: end")
	free.Report(t, func(s *infrav1.HostStatus) { s.Inventory.OperatingSystem = "harmless" })
	for e := (event{}); !strings.Contains(e.data, "harmless"); {
		if e = poll.Receive(t, "the next page", host); e.name == "end" || e == (event{}) {
			t.Fatalf("a host ended the stream: %q", e)
		}
	}
}

// A browser has six connections to a server: the seventh page would never load.
func TestTheOldestStreamMakesRoom(t *testing.T) {
	testenv.Skip(t)
	c := start(t, "", env.Namespace(t))
	oldest := c.live(t, "/hosts")
	for range 5 {
		c.live(t, "/clusters")
	}
	until(t, oldest, "end", "Load it again")
}

func TestKindsThatMayNotBeListedAreNamed(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	cluster(t, namespace)
	user := "viewer-of-" + namespace
	grant(t, user, namespace, rule("list", "hosts"), rule("watch", "hosts"), rule("get", "hosts"))
	c := start(t, user, namespace)
	want(t, "the fleet", c.page(t, "/hosts"), ">host-1</a>")
	want(t, "the host", c.page(t, "/hosts/"+namespace+"/host-1"), "host-1", `cannot list resource &#34;events&#34;`, `cannot list resource &#34;machines&#34;`)
	text := c.page(t, "/clusters")
	want(t, "the clusters", text, `cannot list resource &#34;clusters&#34;`, user)
	if strings.Contains(text, "There is no cluster") {
		t.Error("what may not be seen is told to be missing")
	}
	if code, text := c.get(t, "/clusters/"+namespace+"/c1"); code != http.StatusForbidden || !strings.Contains(text, "cannot list resource") {
		t.Errorf("a cluster that may not be seen answers %d:\n%s", code, text)
	}
	// Who may list but not watch learns it as well.
	lister := "lister-of-" + namespace
	grant(t, lister, namespace, rule("list", "hosts"))
	c = start(t, lister, namespace)
	poll.True(t, "the refused watch is told", func() bool { return strings.Contains(c.page(t, "/hosts"), "cannot watch resource") })
}

func TestNothingOfSecrets(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	cluster(t, namespace)
	const planted = "planted-7c1f"
	for _, name := range []string{"bootstrap-cp-1", "c1-kubeconfig", "slipway-hand-over", "bootstrap-token-abcdef"} {
		create(t, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}},
			Data:       map[string][]byte{"value": []byte(planted), "kubeconfig": []byte(planted)},
		})
	}
	waits(t, namespace)
	c := start(t, "", namespace)
	for _, path := range []string{
		"/hosts", "/hosts/" + namespace + "/host-1", "/hosts/" + namespace + "/host-2", "/clusters", "/clusters/" + namespace + "/c1", "/clusters/" + namespace + "/c1/yaml", "/clusters/new", "/runs/" + namespace + "/run-1",
		"/placement/" + namespace + "/worker-1", "/activity", "/find?q=host", "/hosts/" + namespace + "/host-2/approve", "/hosts/" + namespace + "/host-2/do/cordon", "/clusters/" + namespace + "/c1/do/pause", "/", "/decisions", "/runs/" + namespace + "/run-1", "/runs/" + namespace + "/run-1/decide?decision=Approve&step=go",
	} {
		if text := c.page(t, path); strings.Contains(text, planted) {
			t.Errorf("%s shows a Secret:\n%s", path, text)
		}
	}
	asked := c.asked.all()
	if len(asked) == 0 {
		t.Fatal("nothing was recorded")
	}
	for _, path := range asked {
		// What the user may do is asked, and changes nothing.
		if review := path == "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"; strings.Contains(path, "/secrets") || !strings.HasPrefix(path, "GET ") && !review {
			t.Errorf("pages ask for %s", path)
		}
	}
}

// waits makes run-1 of the test's cluster, which waits for an approval.
func waits(t *testing.T, namespace string) {
	t.Helper()
	at := metav1.NewTime(time.Now().Truncate(time.Second))
	create(t, &lifecyclev1.LifecycleRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "run-1"}, Spec: lifecyclev1.LifecycleRunSpec{
		ClusterName: testenv.ClusterName, PolicyName: "p", PolicyGeneration: 1, Hook: lifecyclev1.BeforeClusterUpgrade, Mode: lifecyclev1.ModeEnforce, Attempt: 1,
		Steps:    []lifecyclev1.Step{{Name: "go", Approval: &lifecyclev1.ApprovalStep{Message: "may it?"}}},
		Progress: []lifecyclev1.StepProgress{{Name: "go", StartTime: at}},
	}})
}

// rule is one verb on a kind of Slipway.
func rule(verb, resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{resource}, Verbs: []string{verb}}
}

// grant gives a user rights in a namespace. It returns when the authorizer of the API server
// knows them: it learns of roles from a watch.
func grant(t *testing.T, user, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, GenerateName: "console-"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: rules}
	create(t, role)
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			poll.Until(t, fmt.Sprintf("%s may %s %s", user, verb, rule.Resources[0]), func() error {
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: namespace, Verb: verb, Group: rule.APIGroups[0], Resource: rule.Resources[0],
				}}}
				if err := env.Client.Create(t.Context(), review); err != nil || review.Status.Allowed {
					return err
				}
				return errors.New("it is refused: " + review.Status.Reason)
			})
		}
	}
}
