package hooks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/hooks"
	"github.com/slipway-dev/slipway/internal/testenv"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	ctrl.SetLogger(klog.Background())
	os.Exit(testenv.Main(m, addToScheme, func(e *testenv.Env) error { env = e; return nil }))
}

func addToScheme(scheme *runtime.Scheme) error {
	return errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), lifecyclev1.AddToScheme(scheme))
}

// replica is one extension with a cache of its own, and a caller as Cluster API has it.
type replica struct {
	*hooktest.Extension
	client *sdkclient.Client
}

// startReplica serves the hooks for a namespace until the end of the test.
func startReplica(t testing.TB, namespace string) *replica {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme:  env.Scheme,
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := hooks.Warm(ctx, mgr.GetCache()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the manager failed: %v", err)
		}
	})
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache was not filled")
	}
	return serve(t, &hooks.Handler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{}})
}

func serve(t testing.TB, handler *hooks.Handler) *replica {
	t.Helper()
	ext := hooktest.Start(t, extension.Options{}, handler.AddTo)
	c, _, err := hooktest.Discover(t.Context(), catalog(t), hooktest.Config("slipway-lifecycle", ext.URL, ext.CA.PEM))
	if err != nil {
		t.Fatal(err)
	}
	return &replica{ext, c}
}

func catalog(t testing.TB) *hook.Catalog {
	t.Helper()
	c := hook.NewCatalog()
	if err := capi.AddToCatalog(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// answer is what Cluster API makes of all that the extension answered.
type answer struct {
	retryAfter int32
	message    string
}

// call is a call of a hook about a cluster.
type call func(context.Context, *replica, clusterv1.Cluster) (answer, error)

func calling[Q, R any](h hook.Hook[Q, R], request func(clusterv1.Cluster) *Q) call {
	return func(ctx context.Context, r *replica, cluster clusterv1.Cluster) (answer, error) {
		// As upstream's cleanupCluster leaves it.
		cluster.Status = clusterv1.ClusterStatus{}
		cluster.ManagedFields = nil
		result, err := sdkclient.CallAll(ctx, r.client, h, &cluster, request(cluster))
		if err != nil {
			return answer{}, err
		}
		response := any(result.Response).(hooksv1.ResponseObject)
		a := answer{message: response.GetMessage()}
		if retry, ok := response.(hooksv1.RetryResponseObject); ok {
			a.retryAfter = retry.GetRetryAfterSeconds()
		}
		return a, nil
	}
}

var beforeCreate = calling(capi.BeforeClusterCreate, func(c clusterv1.Cluster) *hooksv1.BeforeClusterCreateRequest {
	return &hooksv1.BeforeClusterCreateRequest{Cluster: c}
})

func beforeUpgrade(from, to string) call {
	return calling(capi.BeforeClusterUpgrade, func(c clusterv1.Cluster) *hooksv1.BeforeClusterUpgradeRequest {
		return &hooksv1.BeforeClusterUpgradeRequest{
			Cluster: c, FromKubernetesVersion: from, ToKubernetesVersion: to, ControlPlaneUpgrades: controlPlanePlan, WorkersUpgrades: workersPlan,
		}
	})
}

// The plan of the upgrade of all, of which the workers leave a version out.
var (
	controlPlanePlan = []hooksv1.UpgradeStepInfo{{Version: "v1.35.9"}, {Version: to}}
	workersPlan      = []hooksv1.UpgradeStepInfo{{Version: to}}
)

// all calls each hook with the versions of one upgrade.
var all = map[lifecyclev1.HookName]call{
	lifecyclev1.BeforeClusterCreate: beforeCreate,
	lifecyclev1.AfterControlPlaneInitialized: calling(capi.AfterControlPlaneInitialized, func(c clusterv1.Cluster) *hooksv1.AfterControlPlaneInitializedRequest {
		return &hooksv1.AfterControlPlaneInitializedRequest{Cluster: c}
	}),
	lifecyclev1.BeforeClusterUpgrade: beforeUpgrade(from, to),
	lifecyclev1.BeforeControlPlaneUpgrade: calling(capi.BeforeControlPlaneUpgrade, func(c clusterv1.Cluster) *hooksv1.BeforeControlPlaneUpgradeRequest {
		return &hooksv1.BeforeControlPlaneUpgradeRequest{
			Cluster: c, FromKubernetesVersion: from, ToKubernetesVersion: to, ControlPlaneUpgrades: controlPlanePlan, WorkersUpgrades: workersPlan,
		}
	}),
	lifecyclev1.AfterControlPlaneUpgrade: calling(capi.AfterControlPlaneUpgrade, func(c clusterv1.Cluster) *hooksv1.AfterControlPlaneUpgradeRequest {
		return &hooksv1.AfterControlPlaneUpgradeRequest{
			Cluster: c, KubernetesVersion: to, ControlPlaneUpgrades: controlPlanePlan, WorkersUpgrades: workersPlan,
		}
	}),
	lifecyclev1.BeforeWorkersUpgrade: calling(capi.BeforeWorkersUpgrade, func(c clusterv1.Cluster) *hooksv1.BeforeWorkersUpgradeRequest {
		return &hooksv1.BeforeWorkersUpgradeRequest{
			Cluster: c, FromKubernetesVersion: from, ToKubernetesVersion: to, ControlPlaneUpgrades: controlPlanePlan, WorkersUpgrades: workersPlan,
		}
	}),
	lifecyclev1.AfterWorkersUpgrade: calling(capi.AfterWorkersUpgrade, func(c clusterv1.Cluster) *hooksv1.AfterWorkersUpgradeRequest {
		return &hooksv1.AfterWorkersUpgradeRequest{
			Cluster: c, KubernetesVersion: to, ControlPlaneUpgrades: controlPlanePlan, WorkersUpgrades: workersPlan,
		}
	}),
	lifecyclev1.AfterClusterUpgrade: calling(capi.AfterClusterUpgrade, func(c clusterv1.Cluster) *hooksv1.AfterClusterUpgradeRequest {
		return &hooksv1.AfterClusterUpgradeRequest{Cluster: c, KubernetesVersion: to}
	}),
	lifecyclev1.BeforeClusterDelete: calling(capi.BeforeClusterDelete, func(c clusterv1.Cluster) *hooksv1.BeforeClusterDeleteRequest {
		return &hooksv1.BeforeClusterDeleteRequest{Cluster: c}
	}),
}

const from, to = "v1.35.4", "v1.36.3"

// newCluster makes a Cluster that stays when it is deleted.
func newCluster(t testing.TB, namespace, name string, labels map[string]string) *clusterv1.Cluster {
	t.Helper()
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, Finalizers: []string{"example.com/stay"}},
		Spec: clusterv1.ClusterSpec{Topology: clusterv1.Topology{
			ClassRef: clusterv1.ClusterClassRef{Name: "slipway"}, Version: to,
		}},
	}
	if err := env.Client.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	return cluster
}

// becomeDue brings a Cluster to the moment at which Cluster API calls a hook, with the
// versions of all.
func becomeDue(t testing.TB, cluster *clusterv1.Cluster, hook lifecyclev1.HookName) {
	t.Helper()
	switch hook {
	case lifecyclev1.BeforeClusterCreate, lifecyclev1.BeforeClusterUpgrade:
		return
	case lifecyclev1.BeforeClusterDelete:
		if err := env.Client.Delete(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		return
	case lifecyclev1.AfterControlPlaneInitialized:
		cluster.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized", LastTransitionTime: metav1.Now(),
		}}
		if err := env.Client.Status().Update(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
	default:
		// Core marks the others as pending, below.
	}
	pending := hook
	if hook == lifecyclev1.BeforeControlPlaneUpgrade {
		pending = lifecyclev1.AfterClusterUpgrade
	}
	change(t, cluster, func(c *clusterv1.Cluster) {
		c.Annotations = map[string]string{runtimev1.PendingHooksAnnotation: string(pending)}
	})
}

// newPolicy makes a policy that asks for an approval at each of the hooks.
func newPolicy(t testing.TB, namespace, name string, change func(*lifecyclev1.LifecyclePolicySpec), hooks ...lifecyclev1.HookName) *lifecyclev1.LifecyclePolicy {
	t.Helper()
	policy := &lifecyclev1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for _, hook := range hooks {
		policy.Spec.Hooks = append(policy.Spec.Hooks, lifecyclev1.HookPolicy{
			Hook: hook, Steps: []lifecyclev1.Step{{Name: "ask", Approval: &lifecyclev1.ApprovalStep{Message: "may it?"}}},
		})
	}
	if change != nil {
		change(&policy.Spec)
	}
	if err := env.Client.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	return policy
}

func runs(t testing.TB, namespace string) []lifecyclev1.LifecycleRun {
	t.Helper()
	list := &lifecyclev1.LifecycleRunList{}
	if err := env.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// onlyRun returns the one run of a namespace.
func onlyRun(t testing.TB, namespace string) *lifecyclev1.LifecycleRun {
	t.Helper()
	list := runs(t, namespace)
	if len(list) != 1 {
		t.Fatalf("%d runs, want 1: %+v", len(list), list)
	}
	return &list[0]
}

// end records all steps of a run as done.
func end(t testing.TB, run *lifecyclev1.LifecycleRun) {
	t.Helper()
	change(t, run, func(run *lifecyclev1.LifecycleRun) {
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		run.Spec.Progress = nil
		for _, step := range run.Spec.Steps {
			run.Spec.Progress = append(run.Spec.Progress, lifecyclev1.StepProgress{
				Name: step.Name, StartTime: now, EndTime: now, Outcome: lifecyclev1.OutcomeSucceeded,
			})
		}
	})
}

func change[T client.Object](t testing.TB, object T, do func(T)) {
	t.Helper()
	do(object)
	if err := env.Client.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// held fails unless the answer holds the cluster back.
func held(a answer, err error) error {
	if err != nil || a.retryAfter == 0 {
		return fmt.Errorf("answered %+v, %w; want it to hold back", a, err)
	}
	return nil
}

// passed fails unless the answer lets pass.
func passed(a answer, err error) error {
	if err != nil || a.retryAfter != 0 {
		return fmt.Errorf("answered %+v, %w; want it to let pass", a, err)
	}
	return nil
}
