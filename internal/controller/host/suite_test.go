package host_test

import (
	"context"
	"os"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/config"
	hostcontroller "github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

var (
	env *testenv.Env
	// asManager has the rights that a release gives the manager, and no others.
	asManager *rest.Config
	// managed is a client with them, without a cache.
	managed client.Client
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, addToScheme, func(e *testenv.Env) error {
		env = e
		return installManager(context.Background())
	}))
}

// installManager makes the user that the manager is.
func installManager(ctx context.Context) error {
	const user = "the-manager"
	if err := env.Grant(ctx, user, config.FS, "rbac/role.yaml", "rbac/secrets_role.yaml"); err != nil {
		return err
	}
	asManager = env.As(user)
	var err error
	if managed, err = client.New(asManager, client.Options{Scheme: env.Scheme}); err != nil {
		return err
	}
	// The authorizer learns of the bindings a moment later.
	return poll.Wait(func() error {
		if err := managed.List(ctx, &infrav1.HostList{}); err != nil {
			return err
		}
		return client.IgnoreNotFound(managed.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "none"}, &corev1.Secret{}))
	})
}

func addToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, rbacv1.AddToScheme, certificatesv1.AddToScheme,
		clusterv1.AddToScheme, infrav1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

// world is one namespace, and a reconciler with a clock of its own.
type world struct {
	*hostcontroller.Reconciler
	t         *testing.T
	namespace string
	clock     *testclock.FakePassiveClock
	events    chan string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	testenv.Skip(t)
	w := &world{t: t, namespace: env.Namespace(t), clock: testclock.NewFakePassiveClock(time.Now()), events: make(chan string, 1000)}
	w.restart()
	return w
}

// restart begins with a manager that remembers nothing.
func (w *world) restart() {
	w.Reconciler = &hostcontroller.Reconciler{
		Client: managed, APIReader: managed, Recorder: &events.FakeRecorder{Events: w.events}, Clock: w.clock,
	}
}

func (w *world) host(name string, mutate ...func(*infrav1.Host)) *testenv.Agent {
	w.t.Helper()
	return testenv.NewHost(w.t, env.Client, w.namespace, name, w.clock.Now(), mutate...)
}

// reconcile runs the reconciler until it has nothing more to write.
func (w *world) reconcile(agent *testenv.Agent) (*infrav1.Host, ctrl.Result) {
	w.t.Helper()
	before := ""
	for range 20 {
		result, err := w.Reconcile(context.Background(), ctrl.Request{NamespacedName: agent.Key})
		if err != nil {
			w.t.Fatalf("reconcile %s: %v", agent.Key.Name, err)
		}
		h := &infrav1.Host{}
		if err := env.Client.Get(context.Background(), agent.Key, h); err != nil {
			if client.IgnoreNotFound(err) != nil {
				w.t.Fatal(err)
			}
			return nil, result
		}
		if h.ResourceVersion == before {
			return h, result
		}
		before = h.ResourceVersion
	}
	w.t.Fatalf("Host %s does not settle", agent.Key.Name)
	return nil, ctrl.Result{}
}

func (w *world) update(o client.Object) {
	w.t.Helper()
	if err := env.Client.Update(context.Background(), o); err != nil {
		w.t.Fatal(err)
	}
}

// claim ties the host to a HostMachine m1, which it makes.
func (w *world) claim(agent *testenv.Agent, desired infrav1.HostDesiredPhase) *infrav1.HostMachine {
	w.t.Helper()
	machine := &infrav1.HostMachine{}
	machine.Namespace, machine.Name = w.namespace, "m1"
	machine.Spec.ClaimID = "claim-1"
	if err := env.Client.Create(context.Background(), machine); err != nil {
		w.t.Fatal(err)
	}
	h := agent.Host(w.t)
	h.Spec.Claim = &infrav1.HostClaim{MachineName: "m1", ClusterName: "c1", ClaimID: "claim-1"}
	if desired == infrav1.HostDesiredAdopted {
		h.Spec.Claim.Adopt = ptr.To(true)
	}
	h.Spec.ClaimGeneration = 1
	h.Spec.Desired = &infrav1.HostDesired{Phase: desired, OperationID: "op-1", BootstrapSecretName: "secret-1"}
	w.update(h)
	return machine
}
