package hooks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/hooks"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/sdk/conformance"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// Each hook gets a run of its own that holds the cluster back until it is done.
func TestEachHookWaitsForItsRun(t *testing.T) {
	testenv.Skip(t)
	for _, hook := range lifecyclev1.Hooks() {
		t.Run(string(hook), func(t *testing.T) {
			namespace := env.Namespace(t)
			r := startReplica(t, namespace)
			cluster := newCluster(t, namespace, "c1", nil)
			policy := newPolicy(t, namespace, "p1", nil, lifecyclev1.Hooks()...)
			becomeDue(t, cluster, hook)
			call := func() (answer, error) { return all[hook](t.Context(), r, *cluster) }
			poll.Until(t, "the cache knows the policy", func() error {
				if _, err := call(); err != nil {
					t.Fatal(err)
				}
				if len(runs(t, namespace)) == 0 {
					return errors.New("no run yet")
				}
				return nil
			})
			run := onlyRun(t, namespace)
			checkRun(t, run, cluster, policy, hook)
			a, err := call()
			if !hook.Blocking() {
				if err := passed(a, err); err != nil {
					t.Error(err)
				}
				return
			}
			if err := held(a, err); err != nil {
				t.Fatal(err)
			}
			if a.retryAfter > 10 || !strings.Contains(a.message, "LifecyclePolicy p1, step ask: ") {
				t.Errorf("held back with %+v", a)
			}
			end(t, run)
			poll.Until(t, "it lets pass", func() error { return passed(call()) })
			onlyRun(t, namespace)
		})
	}
}

func checkRun(t *testing.T, run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster, policy *lifecyclev1.LifecyclePolicy, hook lifecyclev1.HookName) {
	t.Helper()
	upgrade := lifecyclev1.RunRequest{
		FromKubernetesVersion: from, ToKubernetesVersion: to,
		ControlPlaneUpgrades: []lifecyclev1.UpgradeStep{{Version: "v1.35.9"}, {Version: to}}, WorkersUpgrades: []lifecyclev1.UpgradeStep{{Version: to}},
	}
	upgraded := upgrade
	upgraded.FromKubernetesVersion, upgraded.ToKubernetesVersion, upgraded.KubernetesVersion = "", "", to
	want := map[lifecyclev1.HookName]lifecyclev1.RunRequest{
		lifecyclev1.BeforeClusterUpgrade:      upgrade,
		lifecyclev1.BeforeControlPlaneUpgrade: upgrade,
		lifecyclev1.BeforeWorkersUpgrade:      upgrade,
		lifecyclev1.AfterControlPlaneUpgrade:  upgraded,
		lifecyclev1.AfterWorkersUpgrade:       upgraded,
		lifecyclev1.AfterClusterUpgrade:       {KubernetesVersion: to},
	}[hook]
	s := run.Spec
	if s.ClusterName != cluster.Name || s.PolicyName != policy.Name || s.PolicyGeneration != policy.Generation ||
		s.Hook != hook || !equality.Semantic.DeepEqual(s.Request, want) || s.Attempt != 1 || s.Mode != lifecyclev1.ModeEnforce || len(s.Steps) != 1 {
		t.Errorf("the spec of the run is %+v", s)
	}
	owner := run.OwnerReferences[0]
	if owner.UID != cluster.UID || owner.Kind != "Cluster" || owner.Controller != nil || *owner.BlockOwnerDeletion {
		t.Errorf("the owner is %+v", owner)
	}
	if run.Labels[clusterv1.ClusterNameLabel] != cluster.Name || run.Labels[lifecyclev1.PolicyLabel] != policy.Name || run.Labels[lifecyclev1.HookLabel] != string(hook) {
		t.Errorf("the labels are %v", run.Labels)
	}
}

func remove(t *testing.T, cluster *clusterv1.Cluster) {
	t.Helper()
	if err := env.Client.Delete(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
}

// A plan gets shorter while a step of it waits; that is no other call.
func TestShorterPlanIsTheSameCall(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	r := startReplica(t, namespace)
	cluster := newCluster(t, namespace, "c1", nil)
	newPolicy(t, namespace, "p1", nil, lifecyclev1.BeforeClusterUpgrade)
	shorter := calling(capi.BeforeClusterUpgrade, func(c clusterv1.Cluster) *hooksv1.BeforeClusterUpgradeRequest {
		return &hooksv1.BeforeClusterUpgradeRequest{Cluster: c, FromKubernetesVersion: from, ToKubernetesVersion: to, ControlPlaneUpgrades: controlPlanePlan[1:]}
	})
	for _, call := range []call{all[lifecyclev1.BeforeClusterUpgrade], shorter} {
		poll.Until(t, "it holds back", func() error { return held(call(t.Context(), r, *cluster)) })
	}
	if run := onlyRun(t, namespace); len(run.Spec.Request.ControlPlaneUpgrades) != 2 {
		t.Errorf("the run records the plan %v, want that of the first call", run.Spec.Request.ControlPlaneUpgrades)
	}
}

// Cluster API does not call before the time that it was told, so the policy that moves
// on first must say when.
func TestShortestWishCounts(t *testing.T) {
	testenv.Skip(t)
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		t.Run(order[0]+" waits", func(t *testing.T) {
			namespace := env.Namespace(t)
			r := startReplica(t, namespace)
			cluster := newCluster(t, namespace, "c1", nil)
			for _, name := range order {
				newPolicy(t, namespace, name, nil, lifecyclev1.BeforeClusterCreate)
			}
			poll.Until(t, "both policies have a run", func() error {
				if err := held(beforeCreate(t.Context(), r, *cluster)); err != nil {
					return err
				}
				if n := len(runs(t, namespace)); n != len(order) {
					return fmt.Errorf("%d runs", n)
				}
				return nil
			})
			for i, name := range order {
				reach(t, namespace, name)
				poll.Until(t, "the cache knows that "+name+" waits", func() error {
					a, err := beforeCreate(t.Context(), r, *cluster)
					if err != nil || !strings.Contains(a.message, "LifecyclePolicy "+name+", step ask: waits since") {
						return fmt.Errorf("answered %+v, %w", a, err)
					}
					// A run that has not begun goes on by itself; one that waits for somebody is slow.
					if want := []int32{5, 10}[i]; a.retryAfter != want {
						t.Errorf("asked to be called again after %d s, want %d: %s", a.retryAfter, want, a.message)
					}
					return nil
				})
			}
		})
	}
}

// reach records that the approval of a policy's run is waited for.
func reach(t *testing.T, namespace, policy string) {
	t.Helper()
	for _, run := range runs(t, namespace) {
		if run.Spec.PolicyName == policy {
			change(t, &run, func(run *lifecyclev1.LifecycleRun) {
				run.Spec.Progress = []lifecyclev1.StepProgress{{Name: "ask", StartTime: metav1.NewTime(time.Now().Truncate(time.Second))}}
			})
		}
	}
}

// Two replicas and many calls at the same time make one run.
func TestReplicasRaceForOneRun(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	replicas := []*replica{startReplica(t, namespace), startReplica(t, namespace)}
	cluster := newCluster(t, namespace, "c1", nil)
	probe := newCluster(t, namespace, "probe", nil)
	newPolicy(t, namespace, "p1", nil, lifecyclev1.BeforeClusterCreate)
	for _, r := range replicas {
		poll.Until(t, "the cache knows the policy", func() error { return held(beforeCreate(t.Context(), r, *probe)) })
	}
	const calls = 20
	failures := make([]error, calls)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() { failures[i] = held(beforeCreate(t.Context(), replicas[i%2], *cluster)) })
	}
	wg.Wait()
	if err := errors.Join(failures...); err != nil {
		t.Error(err)
	}
	if got := len(runs(t, namespace)); got != 2 {
		t.Errorf("%d runs, want one for each of two clusters", got)
	}
}

func TestRunThatWasGivenUpIsFollowedByAnother(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	r := startReplica(t, namespace)
	cluster := newCluster(t, namespace, "c1", nil)
	newPolicy(t, namespace, "p1", nil, lifecyclev1.BeforeClusterUpgrade)
	poll.Until(t, "it holds back", func() error { return held(all[lifecyclev1.BeforeClusterUpgrade](t.Context(), r, *cluster)) })
	first := onlyRun(t, namespace)
	change(t, first, func(run *lifecyclev1.LifecycleRun) { run.Spec.Cancelled = "the upgrade was called off" })

	poll.Until(t, "a second attempt begins", func() error {
		if err := held(all[lifecyclev1.BeforeClusterUpgrade](t.Context(), r, *cluster)); err != nil {
			return err
		}
		if got := len(runs(t, namespace)); got != 2 {
			return fmt.Errorf("%d runs", got)
		}
		return nil
	})
	// Another upgrade is another call, whatever became of this one.
	change(t, cluster, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.37.0" })
	if err := held(beforeUpgrade("v1.36.3", "v1.37.0")(t.Context(), r, *cluster)); err != nil {
		t.Error(err)
	}
	attempts := map[string]int32{}
	for _, run := range runs(t, namespace) {
		attempts[run.Spec.Request.ToKubernetesVersion] = max(attempts[run.Spec.Request.ToKubernetesVersion], run.Spec.Attempt)
	}
	if attempts[to] != 2 || attempts["v1.37.0"] != 1 {
		t.Errorf("attempts by version: %v", attempts)
	}
}

func TestPolicySelects(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	r := startReplica(t, namespace)
	blue := newCluster(t, namespace, "blue", map[string]string{"color": "blue"})
	red := newCluster(t, namespace, "red", map[string]string{"color": "red"})
	newPolicy(t, namespace, "by-label", func(s *lifecyclev1.LifecyclePolicySpec) {
		s.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"color": "blue"}}
	}, lifecyclev1.BeforeClusterCreate)
	newPolicy(t, namespace, "by-condition", func(s *lifecyclev1.LifecyclePolicySpec) {
		s.MatchCondition = `cluster.spec.topology.classRef.name == "slipway" && cluster.metadata.name == "blue"`
	}, lifecyclev1.BeforeClusterCreate)
	newPolicy(t, namespace, "other-hook", nil, lifecyclev1.BeforeClusterDelete)
	newPolicy(t, env.Namespace(t), "other-namespace", nil, lifecyclev1.BeforeClusterCreate)
	poll.Until(t, "both policies hold blue back", func() error {
		a, err := beforeCreate(t.Context(), r, *blue)
		if err := held(a, err); err != nil {
			return err
		}
		if !strings.Contains(a.message, "LifecyclePolicy by-condition,") || !strings.Contains(a.message, "; LifecyclePolicy by-label,") {
			return errors.New(a.message)
		}
		return nil
	})
	if err := passed(beforeCreate(t.Context(), r, *red)); err != nil {
		t.Error(err)
	}
	for _, run := range runs(t, namespace) {
		if run.Spec.ClusterName != "blue" || strings.HasPrefix(run.Spec.PolicyName, "other") {
			t.Errorf("there is a run %s", run.Name)
		}
	}
}

// What is only looked at holds nothing back, and does not stand for what is to be done.
func TestAuditHoldsNothingBack(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	r := startReplica(t, namespace)
	cluster := newCluster(t, namespace, "c1", nil)
	audit := func(s *lifecyclev1.LifecyclePolicySpec) { s.Mode = lifecyclev1.ModeAudit }
	policy := newPolicy(t, namespace, "p1", audit, lifecyclev1.BeforeClusterCreate)
	newPolicy(t, namespace, "p2", func(s *lifecyclev1.LifecyclePolicySpec) {
		audit(s)
		s.MatchCondition = "cluster.spec.nothing.of.this"
	}, lifecyclev1.BeforeClusterCreate)
	poll.Until(t, "the policy is audited", func() error {
		if err := passed(beforeCreate(t.Context(), r, *cluster)); err != nil {
			t.Fatal(err)
		}
		if len(runs(t, namespace)) == 0 {
			return errors.New("no run")
		}
		return nil
	})
	if run := onlyRun(t, namespace); run.Spec.Mode != lifecyclev1.ModeAudit || run.Spec.PolicyName != "p1" {
		t.Errorf("the run is %+v", run.Spec)
	}
	end(t, onlyRun(t, namespace))
	change(t, policy, func(p *lifecyclev1.LifecyclePolicy) { p.Spec.Mode = lifecyclev1.ModeEnforce })
	poll.Until(t, "it is executed", func() error { return held(beforeCreate(t.Context(), r, *cluster)) })
	if got := len(runs(t, namespace)); got != 2 {
		t.Errorf("%d runs, want 2", got)
	}
}

// refusing lets nothing be created, as a quota does.
type refusing struct{ client.Client }

func (refusing) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errors.New("exceeded quota: count/lifecycleruns")
}

func TestAuditHoldsNothingBackThatItCannotRecord(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	r := serve(t, &hooks.Handler{Client: refusing{env.Client}, APIReader: env.Client, Clock: clock.RealClock{}})
	cluster := newCluster(t, namespace, "c1", nil)
	policy := newPolicy(t, namespace, "p1", func(s *lifecyclev1.LifecyclePolicySpec) { s.Mode = lifecyclev1.ModeAudit }, lifecyclev1.BeforeClusterCreate)
	if err := passed(beforeCreate(t.Context(), r, *cluster)); err != nil {
		t.Error(err)
	}
	change(t, policy, func(p *lifecyclev1.LifecyclePolicy) { p.Spec.Mode = lifecyclev1.ModeEnforce })
	if _, err := beforeCreate(t.Context(), r, *cluster); err == nil || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("enforced: %v", err)
	}
}

// hanging does not answer whoever makes runs of a policy, as a webhook of somebody else.
type hanging struct {
	client.Client
	policy string
}

func (h hanging) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if run, ok := object.(*lifecyclev1.LifecycleRun); ok && run.Spec.PolicyName == h.policy {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.Client.Create(ctx, object, options...)
}

// Cluster API takes an answer that comes too late for an error, upon which it waits.
func TestAuditHoldsNothingBackByBeingSlow(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	r := serve(t, &hooks.Handler{Client: hanging{env.Client, "a"}, APIReader: env.Client, Clock: clock.RealClock{}})
	cluster := newCluster(t, namespace, "c1", nil)
	audit := func(s *lifecyclev1.LifecyclePolicySpec) { s.Mode = lifecyclev1.ModeAudit }
	newPolicy(t, namespace, "a", audit, lifecyclev1.BeforeClusterCreate)
	if err := passed(beforeCreate(t.Context(), r, *cluster)); err != nil {
		t.Fatal(err)
	}
	newPolicy(t, namespace, "b", nil, lifecyclev1.BeforeClusterCreate)
	if err := held(beforeCreate(t.Context(), r, *cluster)); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeKnownIsAnError(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	r := startReplica(t, namespace)
	cluster := newCluster(t, namespace, "c1", nil)
	if err := passed(beforeCreate(t.Context(), r, *cluster)); err != nil {
		t.Fatal(err)
	}
	fails := func(t *testing.T, want string, r *replica, do call, cluster *clusterv1.Cluster) {
		t.Helper()
		poll.Until(t, want, func() error {
			_, err := do(t.Context(), r, *cluster)
			if err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("error %w, want it to say %q", err, want)
			}
			return nil
		})
	}
	t.Run("no such cluster", func(t *testing.T) {
		other := cluster.DeepCopy()
		other.Name = "c2"
		fails(t, "not found", r, beforeCreate, other)
	})
	t.Run("a former cluster of that name", func(t *testing.T) {
		other := cluster.DeepCopy()
		other.UID = "former"
		fails(t, `with UID "former"`, r, beforeCreate, other)
	})
	t.Run("a deletion that nobody asked for", func(t *testing.T) {
		fails(t, "its deletion has begun: false", r, all[lifecyclev1.BeforeClusterDelete], cluster)
	})
	t.Run("the cache is not filled", func(t *testing.T) {
		c, err := cache.New(env.Config, cache.Options{Scheme: env.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		reader, err := client.New(env.Config, client.Options{Scheme: env.Scheme, Cache: &client.CacheOptions{Reader: c}})
		if err != nil {
			t.Fatal(err)
		}
		fails(t, "list LifecyclePolicies", serve(t, &hooks.Handler{Client: reader, APIReader: env.Client, Clock: clock.RealClock{}}), beforeCreate, cluster)
	})
	t.Run("a condition that fails", func(t *testing.T) {
		newPolicy(t, namespace, "p1", func(s *lifecyclev1.LifecyclePolicySpec) {
			s.MatchCondition = "cluster.spec.nothing == 1"
		}, lifecyclev1.BeforeClusterCreate)
		fails(t, "LifecyclePolicy p1: spec.matchCondition", r, beforeCreate, cluster)
	})
	if got := runs(t, namespace); len(got) != 0 {
		t.Errorf("there are runs: %+v", got)
	}
}

// staleCache has what was there once.
type staleCache struct {
	client.Client
	runs []lifecyclev1.LifecycleRun
	// noPolicies: it is from before the first one.
	noPolicies bool
}

func (c *staleCache) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	if runs, ok := list.(*lifecyclev1.LifecycleRunList); ok {
		runs.Items = c.runs
		return nil
	}
	if _, ok := list.(*lifecyclev1.LifecyclePolicyList); ok && c.noPolicies {
		return nil
	}
	return c.Client.List(ctx, list, o...)
}

func (c *staleCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, o ...client.GetOption) error {
	run, ok := object.(*lifecyclev1.LifecycleRun)
	if !ok {
		return c.Client.Get(ctx, key, object, o...)
	}
	for i := range c.runs {
		if client.ObjectKeyFromObject(&c.runs[i]) == key {
			c.runs[i].DeepCopyInto(run)
			return nil
		}
	}
	return apierrors.NewNotFound(lifecyclev1.GroupVersion.WithResource("lifecycleruns").GroupResource(), key.Name)
}

// A cache that is behind can hold a cluster back for longer. It never lets one pass,
// and makes no second run.
func TestStaleCacheLetsNothingPass(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	stale := &staleCache{Client: env.Client}
	r := serve(t, &hooks.Handler{Client: stale, APIReader: env.Client, Clock: clock.RealClock{}})
	cluster := newCluster(t, namespace, "c1", nil)
	newPolicy(t, namespace, "p1", nil, lifecyclev1.BeforeClusterCreate)
	for range 2 {
		if err := held(beforeCreate(t.Context(), r, *cluster)); err != nil {
			t.Fatal(err)
		}
	}
	run := onlyRun(t, namespace)
	end(t, run)
	stale.runs = runs(t, namespace)
	change(t, run, func(run *lifecyclev1.LifecycleRun) { run.Spec.Cancelled = "the policy was edited" })
	for range 2 {
		if err := held(beforeCreate(t.Context(), r, *cluster)); err != nil {
			t.Error(err)
		}
	}
	if got := len(runs(t, namespace)); got != 2 {
		t.Errorf("%d runs, want 2", got)
	}
}

// A policy that the cache does not have yet holds the cluster back all the same, and
// gets its run at a hook that waits for nothing.
func TestStalePolicyCacheLetsNothingPass(t *testing.T) {
	testenv.Skip(t)
	for _, hook := range []lifecyclev1.HookName{lifecyclev1.BeforeClusterUpgrade, lifecyclev1.AfterControlPlaneInitialized} {
		namespace := env.Namespace(t)
		r := serve(t, &hooks.Handler{Client: &staleCache{Client: env.Client, noPolicies: true}, APIReader: env.Client, Clock: clock.RealClock{}})
		cluster := newCluster(t, namespace, "c1", nil)
		becomeDue(t, cluster, hook)
		newPolicy(t, namespace, "p1", nil, hook)
		if err := held(all[hook](t.Context(), r, *cluster)); hook.Blocking() && err != nil {
			t.Error(err)
		}
		onlyRun(t, namespace)
	}
}

// A call that Cluster API cannot make now begins nothing, whoever makes it.
func TestWhatIsNotDueBeginsNothing(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	r := serve(t, &hooks.Handler{Client: env.Client, APIReader: env.Client, Clock: clock.RealClock{}})
	resting := newCluster(t, namespace, "c1", nil)
	resting.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{Versions: []clusterv1.StatusVersion{{Version: to, Replicas: 1}}}
	resting.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized", LastTransitionTime: metav1.Now()}}
	if err := env.Client.Status().Update(t.Context(), resting); err != nil {
		t.Fatal(err)
	}
	change(t, resting, func(c *clusterv1.Cluster) {
		c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "c1"}
	})
	newPolicy(t, namespace, "p1", nil, lifecyclev1.Hooks()...)
	for hook, call := range all {
		_, err := call(t.Context(), r, *resting)
		// Nothing but its annotation is missing: Cluster API called it already, and does so again until its cache says so.
		if repeated := hook == lifecyclev1.AfterControlPlaneInitialized; repeated && err != nil || !repeated && (err == nil || !strings.Contains(err.Error(), "is not due")) {
			t.Errorf("%s: error %v", hook, err)
		}
	}
	for i := range 50 {
		version := fmt.Sprintf("v9.%d.0", i)
		invented := calling(capi.AfterClusterUpgrade, func(c clusterv1.Cluster) *hooksv1.AfterClusterUpgradeRequest {
			return &hooksv1.AfterClusterUpgradeRequest{Cluster: c, KubernetesVersion: version}
		})
		if _, err := invented(t.Context(), r, *resting); err == nil {
			t.Errorf("AfterClusterUpgrade of %s was answered", version)
		}
	}
	if got := runs(t, namespace); len(got) != 0 {
		t.Errorf("%d runs were made for a cluster at rest", len(got))
	}
}

// clusterctl move gives the Cluster and the owner reference another UID and keeps the
// name of the run.
func TestMovedRunCounts(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	stale := &staleCache{Client: env.Client}
	r := serve(t, &hooks.Handler{Client: stale, APIReader: env.Client, Clock: clock.RealClock{}})
	cluster := newCluster(t, namespace, "c1", nil)
	newPolicy(t, namespace, "p1", nil, lifecyclev1.BeforeClusterCreate)
	if err := held(beforeCreate(t.Context(), r, *cluster)); err != nil {
		t.Fatal(err)
	}
	end(t, onlyRun(t, namespace))

	change(t, cluster, func(c *clusterv1.Cluster) { c.Finalizers = nil })
	remove(t, cluster)
	moved := newCluster(t, namespace, "c1", nil)
	_, err := beforeCreate(t.Context(), r, *moved)
	if err == nil || !strings.Contains(err.Error(), "is in the way until it is removed") {
		t.Errorf("the run of a former cluster: error %v", err)
	}
	change(t, onlyRun(t, namespace), func(run *lifecyclev1.LifecycleRun) { run.OwnerReferences[0].UID = moved.UID })
	if err := passed(beforeCreate(t.Context(), r, *moved)); err != nil {
		t.Error(err)
	}
	onlyRun(t, namespace)
}

func TestConformance(t *testing.T) {
	testenv.Skip(t)
	r := startReplica(t, env.Namespace(t))
	hooktest.Conformance(t, conformance.Options{URL: r.URL, CABundle: r.CA.PEM, Catalog: catalog(t)})
}
