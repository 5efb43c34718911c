package extensionconfig_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	"github.com/slipway-dev/slipway/internal/controller/extensionconfig"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, addToScheme, func(e *testenv.Env) error { env = e; return nil }))
}

func addToScheme(scheme *runtime.Scheme) error {
	return errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme),
		runtimev1.AddToScheme(scheme), runtimev1alpha1.AddToScheme(scheme))
}

// world is what one test has to itself: a namespace, and the value of the watch
// label by which its managers leave the objects of other tests alone.
type world struct {
	*testing.T
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	testenv.Skip(t)
	t.Parallel()
	return &world{T: t, namespace: env.Namespace(t)}
}

// lateCache is a client whose cache has seen no write yet: what is read by name stays
// as it was first.
type lateCache struct {
	client.Client
	mu    sync.Mutex
	first map[client.ObjectKey]*runtimev1.ExtensionConfig
}

func (c *lateCache) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	config, ok := o.(*runtimev1.ExtensionConfig)
	if !ok {
		return c.Client.Get(ctx, key, o, options...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen := c.first[key]; seen != nil {
		seen.DeepCopyInto(config)
		return nil
	}
	err := c.Client.Get(ctx, key, config, options...)
	if err == nil {
		c.first[key] = config.DeepCopy()
	}
	return err
}

// manager starts a manager with the controller for kind, until the test ends.
func (w *world) manager(kind extensionconfig.Kind, interval time.Duration) (rt *extensionconfig.Runtime, stop func()) {
	w.Helper()
	return w.managerWith(kind, interval, func(c client.Client) client.Client { return c })
}

// managerWith starts a manager whose controller uses what wrap makes of its client.
func (w *world) managerWith(kind extensionconfig.Kind, interval time.Duration, wrap func(client.Client) client.Client) (rt *extensionconfig.Runtime, stop func()) {
	w.Helper()
	catalog := hook.NewCatalog()
	if err := errors.Join(capi.AddToCatalog(catalog), host.AddToCatalog(catalog)); err != nil {
		w.Fatal(err)
	}
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, GracefulShutdownTimeout: ptr.To(time.Second),
	})
	if err != nil {
		w.Fatal(err)
	}
	rt, err = extensionconfig.NewRuntime(mgr.GetAPIReader(), catalog, sdkclient.Options{
		Backoff: sdkclient.Backoff{Initial: time.Millisecond, Max: time.Millisecond},
	})
	if err != nil {
		w.Fatal(err)
	}
	err = (&extensionconfig.Reconciler{
		Kind: kind, Runtime: rt, Client: wrap(mgr.GetClient()), APIReader: mgr.GetAPIReader(),
		Recorder: mgr.GetEventRecorder("test"), Interval: interval, WatchFilter: w.namespace,
	}).SetupWithManager(mgr, mgr.GetCache(), controller.Options{MaxConcurrentReconciles: 4, SkipNameValidation: ptr.To(true)})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.Errorf("the manager failed: %v", err)
		}
	}
	w.Cleanup(stop)
	return rt, stop
}

// name is unique among the cluster-scoped objects of all tests.
func (w *world) name(suffix string) string { return w.namespace + "-" + suffix }

func (w *world) config(suffix, url string, ca []byte) *runtimev1.ExtensionConfig {
	return &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: w.name(suffix), Labels: map[string]string{clusterv1.WatchLabel: w.namespace}},
		Spec:       runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: url, CABundle: ca}},
	}
}

func (w *world) create(o client.Object) {
	w.Helper()
	if err := env.Client.Create(w.Context(), o); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = env.Client.Delete(context.Background(), o) })
}

// eventually reads o again until ok.
func (w *world) eventually(what string, o client.Object, ok func() bool) {
	w.Helper()
	poll.Until(w.T, what, func() error {
		if err := env.Client.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if ok() {
			return nil
		}
		text, err := json.Marshal(o)
		return errors.Join(fmt.Errorf("not so: %s", text), err)
	})
}

// until waits for something else than an object.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	poll.True(w.T, what, ok)
}

func (w *world) cluster(labels map[string]string) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "c", Labels: labels}}
}

func call(ctx context.Context, rt *extensionconfig.Runtime, cluster *clusterv1.Cluster) error {
	_, err := sdkclient.CallAll(ctx, rt.Client, capi.BeforeClusterCreate, cluster, &hooksv1.BeforeClusterCreateRequest{Cluster: *cluster})
	return err
}

// condition returns "<status> <reason> <message>", or "" without such a condition
// for the current generation.
func condition(o extensionconfig.Object, conditionType string) string {
	for _, c := range o.GetConditions() {
		if c.Type == conditionType && c.ObservedGeneration == o.GetGeneration() {
			return strings.TrimSpace(string(c.Status) + " " + c.Reason + " " + c.Message)
		}
	}
	return ""
}

// discovery answers discovery with handlers of BeforeClusterCreate in random order,
// and anything else with next.
func discovery(next http.HandlerFunc, names ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/discovery") {
			next(w, r)
			return
		}
		response := &hooksv1.DiscoveryResponse{}
		response.Status = hooksv1.ResponseStatusSuccess
		for _, i := range rand.Perm(len(names)) {
			response.Handlers = append(response.Handlers, hooksv1.ExtensionHandler{
				Name:        names[i],
				RequestHook: hooksv1.GroupVersionHook{APIVersion: hooksv1.GroupVersion.String(), Hook: "BeforeClusterCreate"},
			})
		}
		_ = json.NewEncoder(w).Encode(response)
	}
}
