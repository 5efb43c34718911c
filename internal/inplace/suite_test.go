package inplace_test

import (
	"errors"
	"os"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/inplace"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

const newVersion = "v1.36.4"

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, addToScheme, func(e *testenv.Env) error { env = e; return nil }))
}

func addToScheme(scheme *runtime.Scheme) error {
	return errors.Join(corev1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme))
}

// world is a namespace with one Machine, on a host that runs.
type world struct {
	t       *testing.T
	agent   *testenv.Agent
	machine *clusterv1.Machine
	infra   *infrav1.HostMachine
}

// newWorld makes a Machine that Cluster API updates to newVersion. mutate may change it
// before.
func newWorld(t *testing.T, mutate ...func(*clusterv1.Machine, *infrav1.HostMachine)) *world {
	t.Helper()
	testenv.Skip(t)
	t.Parallel()
	namespace := env.Namespace(t)
	testenv.NewCluster(t, env.Client, namespace)
	const claim = "claim-1"
	w := &world{t: t}
	w.agent = testenv.NewHost(t, env.Client, namespace, "host-1", time.Now(), func(h *infrav1.Host) {
		h.Spec.Claim = &infrav1.HostClaim{MachineName: "m1", ClusterName: testenv.ClusterName, ClaimID: claim}
		h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredBootstrapped, OperationID: host.BootstrapOperationID(claim), Version: testenv.Version}
	})
	w.agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory.KubernetesVersions = []string{testenv.Version, newVersion} })
	w.agent.Obey(t, time.Now())
	w.infra = testenv.NewMachine(t, env.Client, namespace, "m1", func(m *clusterv1.Machine, infra *infrav1.HostMachine) {
		m.Spec.Version = newVersion
		m.Labels["set"] = "workers"
		m.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: "", runtimev1.PendingHooksAnnotation: "Another,UpdateMachine"}
		infra.Spec.ClaimID, infra.Spec.ProviderID = claim, infrav1.ProviderID(namespace, "host-1", claim)
		for _, change := range mutate {
			change(m, infra)
		}
	})
	w.machine = &clusterv1.Machine{}
	w.get(client.ObjectKey{Namespace: namespace, Name: "m1"}, w.machine)
	return w
}

func (w *world) get(key client.ObjectKey, into client.Object) {
	w.t.Helper()
	if err := env.Client.Get(w.t.Context(), key, into); err != nil {
		w.t.Fatal(err)
	}
}

// server is a replica that was started just now.
func (w *world) server() *extension.Server {
	w.t.Helper()
	server, err := extension.New(extension.Options{})
	if err == nil {
		err = (&inplace.Handler{Client: env.Client, APIReader: env.Client}).AddTo(server)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return server
}

// update calls UpdateMachine of a new replica.
func (w *world) update() *hooksv1.UpdateMachineResponse {
	w.t.Helper()
	return hooktest.Call(w.t, w.server(), capi.UpdateMachine, "update-machine", &hooksv1.UpdateMachineRequest{
		Desired: hooksv1.UpdateMachineRequestObjects{Machine: clusterv1.Machine{
			TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
			ObjectMeta: metav1.ObjectMeta{Namespace: w.machine.Namespace, Name: w.machine.Name}, Spec: clusterv1.MachineSpec{Version: newVersion},
		}},
	})
}

// requestUpgrade does what the HostMachine's reconciler does with spec.version.
func (w *world) requestUpgrade() {
	w.t.Helper()
	w.get(client.ObjectKeyFromObject(w.infra), w.infra)
	h := w.agent.Host(w.t)
	if !host.RequestUpgrade(h, w.infra.Spec.Version, nil) {
		w.t.Fatalf("nothing to request: %+v of %+v", w.infra.Spec, h.Spec)
	}
	if err := env.Client.Update(w.t.Context(), h); err != nil {
		w.t.Fatal(err)
	}
}

func raw(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }
