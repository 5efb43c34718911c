package agentrelease_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/controller/agentrelease"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

var (
	env *testenv.Env
	// asManager has the rights that a release gives the manager, and no others.
	asManager *rest.Config
	// managed is a client with them, without a cache.
	managed client.WithWatch
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(klog.Background())
	os.Exit(testenv.Main(m, addToScheme, func(e *testenv.Env) error {
		env = e
		return installManager(context.Background())
	}))
}

func addToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, rbacv1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

// installManager makes the user that the manager is.
func installManager(ctx context.Context) error {
	const user = "the-manager"
	if err := env.Grant(ctx, user, config.FS, "rbac/role.yaml"); err != nil {
		return err
	}
	asManager = env.As(user)
	var err error
	managed, err = client.NewWithWatch(asManager, client.Options{Scheme: env.Scheme})
	return err
}

const (
	older          = "v0.9.0"
	digest, mended = "sha256:1111111111111111111111111111111111111111111111111111111111111111", "sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

// versions are those of the releases of this process: AgentReleases are of no namespace.
var versions atomic.Int32

// world is one namespace with hosts, and a release of the version of its manager.
type world struct {
	*agentrelease.Reconciler
	t         *testing.T
	namespace string
	agents    []*testenv.Agent
	events    chan string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	testenv.Skip(t)
	w := &world{t: t, namespace: env.Namespace(t), events: make(chan string, 1000)}
	w.restart(managed, fmt.Sprintf("v1.%d.0", versions.Add(1)))
	release := &infrav1.AgentRelease{ObjectMeta: metav1.ObjectMeta{Name: w.Version}}
	release.Spec = infrav1.AgentReleaseSpec{Version: w.Version, Digest: digest, Architectures: []string{"amd64"}}
	if err := env.Client.Create(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	// The authorizer learns of the rights of the manager a moment later.
	poll.Until(t, "the manager may list hosts", func() error {
		return managed.List(t.Context(), &infrav1.HostList{}, client.InNamespace(w.namespace))
	})
	return w
}

// restart begins with a manager that remembers nothing.
func (w *world) restart(c client.Client, version string) {
	w.Reconciler = &agentrelease.Reconciler{
		Client: c, APIReader: managed, Recorder: &events.FakeRecorder{Events: w.events}, Version: version, Namespace: w.namespace,
	}
}

// hosts makes hosts of a failure domain whose agents update themselves.
func (w *world) hosts(domain string, n int) {
	w.t.Helper()
	for i := range n {
		agent := testenv.NewHost(w.t, env.Client, w.namespace, fmt.Sprintf("%s-%d", domain, i), time.Now(), func(h *infrav1.Host) { h.Spec.FailureDomain = domain })
		agent.Report(w.t, func(s *infrav1.HostStatus) {
			s.Inventory.AgentVersion, s.Software.AgentManagement = older, infrav1.HostSoftwareManaged
		})
		w.agents = append(w.agents, agent)
	}
}

func (w *world) reconcile() ctrl.Result {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: w.Version}})
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func (w *world) release() *infrav1.AgentRelease {
	w.t.Helper()
	release := &infrav1.AgentRelease{}
	if err := env.Client.Get(w.t.Context(), client.ObjectKey{Name: w.Version}, release); err != nil {
		w.t.Fatal(err)
	}
	return release
}

// wants fails unless the release has that reason, and these counts of hosts, of those that
// are updated and of those that failed.
func (w *world) wants(reason string, counts ...int32) {
	w.t.Helper()
	s := w.release().Status
	c := conditions.Get(w.release(), infrav1.AgentReleaseRolledOutCondition)
	if c == nil || c.Reason != reason || c.ObservedGeneration != w.release().Generation {
		w.t.Errorf("condition %+v, want %s", c, reason)
	}
	if s.Hosts == nil || s.Updated == nil || s.Failed == nil || *s.Hosts != counts[0] || *s.Updated != counts[1] || *s.Failed != counts[2] {
		w.t.Errorf("status %+v, want counts %v", s, counts)
	}
	halted := 0
	if reason == infrav1.AgentReleaseHaltedReason {
		halted = 1
	}
	if want := fmt.Sprintf("halted=%d failed=%d pending=%d updated=%d", halted, counts[2], counts[0]-counts[1]-counts[2], counts[1]); w.measured() != want {
		w.t.Errorf("metrics %q, want %q", w.measured(), want)
	}
}

// measured are the metrics of the release.
func (w *world) measured() string {
	w.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(agentrelease.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	var series []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{"state": strings.TrimPrefix(family.GetName(), "slipway_agent_release_")}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["release"] == w.Version {
				series = append(series, fmt.Sprintf("%s=%v", labels["state"], m.GetGauge().GetValue()))
			}
		}
	}
	return strings.Join(series, " ")
}

// asked are the hosts that were asked for a digest, by name.
func (w *world) asked(digest string) string {
	w.t.Helper()
	list := &infrav1.HostList{}
	if err := env.Client.List(w.t.Context(), list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if a := list.Items[i].Spec.Agent; a != nil && *a == (infrav1.HostAgentSpec{Version: w.Version, ReleaseDigest: digest}) {
			names = append(names, list.Items[i].Name)
		}
	}
	return strings.Join(names, " ")
}

// update has all agents that were asked do it; failing is the name of one that goes back.
// It says how many did anything.
func (w *world) update(failing string) int {
	w.t.Helper()
	n := 0
	for _, agent := range w.agents {
		h := agent.Host(w.t)
		if h.Spec.Agent == nil || agent.Status.Inventory.AgentVersion == w.Version || agent.Status.AgentUpdate != nil && agent.Status.AgentUpdate.ReleaseDigest == h.Spec.Agent.ReleaseDigest {
			continue
		}
		n++
		agent.Report(w.t, func(s *infrav1.HostStatus) {
			if h.Name != failing {
				s.Inventory.AgentVersion, s.AgentUpdate = h.Spec.Agent.Version, nil
				return
			}
			s.AgentUpdate = &infrav1.HostAgentUpdate{Version: h.Spec.Agent.Version, ReleaseDigest: h.Spec.Agent.ReleaseDigest, State: infrav1.HostAgentUpdateFailed, Message: "no word of it"}
		})
	}
	return n
}

// told are the events since the last call.
func (w *world) told() []string {
	var told []string
	for len(w.events) > 0 {
		told = append(told, <-w.events)
	}
	return told
}
