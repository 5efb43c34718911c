package hostmachine_test

import (
	"context"
	"os"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/controller/hostmachine"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, addToScheme, func(e *testenv.Env) error { env = e; return nil }))
}

func addToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

// world is one namespace with a Cluster, and a reconciler with a clock of its own.
type world struct {
	*hostmachine.Reconciler
	t         *testing.T
	namespace string
	clock     *testclock.FakeClock
}

func newWorld(t *testing.T) *world {
	t.Helper()
	testenv.Skip(t)
	t.Parallel()
	w := &world{t: t, namespace: env.Namespace(t), clock: testclock.NewFakeClock(time.Now())}
	w.Reconciler = w.reconciler(env.Client)
	testenv.NewCluster(t, env.Client, w.namespace)
	return w
}

func (w *world) reconciler(c client.Client) *hostmachine.Reconciler {
	return &hostmachine.Reconciler{Client: c, APIReader: c, Recorder: &events.FakeRecorder{}, Clock: w.clock}
}

func (w *world) host(name string, mutate ...func(*infrav1.Host)) *testenv.Agent {
	w.t.Helper()
	return testenv.NewHost(w.t, env.Client, w.namespace, name, w.clock.Now(), mutate...)
}

func (w *world) machine(name string, mutate ...func(*clusterv1.Machine, *infrav1.HostMachine)) client.ObjectKey {
	w.t.Helper()
	return client.ObjectKeyFromObject(testenv.NewMachine(w.t, env.Client, w.namespace, name, mutate...))
}

// reconcile runs the reconciler until it has nothing more to write, as the events
// of its own writes would make it.
func (w *world) reconcile(key client.ObjectKey) (*infrav1.HostMachine, ctrl.Result) {
	w.t.Helper()
	before := ""
	for range 20 {
		result, err := w.Reconcile(context.Background(), ctrl.Request{NamespacedName: key})
		if err != nil {
			w.t.Fatalf("reconcile %s: %v", key.Name, err)
		}
		m := w.get(key)
		if m == nil || m.ResourceVersion == before {
			return m, result
		}
		before = m.ResourceVersion
	}
	w.t.Fatalf("HostMachine %s does not settle", key.Name)
	return nil, ctrl.Result{}
}

// get returns nil when the machine is gone.
func (w *world) get(key client.ObjectKey) *infrav1.HostMachine {
	w.t.Helper()
	m := &infrav1.HostMachine{}
	if err := env.Client.Get(context.Background(), key, m); err != nil {
		if client.IgnoreNotFound(err) != nil {
			w.t.Fatal(err)
		}
		return nil
	}
	return m
}

func (w *world) delete(key client.ObjectKey) {
	w.t.Helper()
	if err := env.Client.Delete(context.Background(), w.get(key)); err != nil {
		w.t.Fatal(err)
	}
}

// clear does what the Host controller does on proof.
func (w *world) clear(agent *testenv.Agent) {
	w.t.Helper()
	h := agent.Host(w.t)
	if !host.ResetProved(h) {
		w.t.Fatalf("Host %s is not proved clean: %+v", h.Name, h.Status)
	}
	h.Spec.Claim, h.Spec.Desired = nil, nil
	if err := env.Client.Update(context.Background(), h); err != nil {
		w.t.Fatal(err)
	}
}
