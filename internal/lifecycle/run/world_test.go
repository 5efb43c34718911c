package run_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/run"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

var (
	env *testenv.Env
	ctx = context.Background()
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(s *runtime.Scheme) error {
		builder := runtime.NewSchemeBuilder(corev1.AddToScheme, batchv1.AddToScheme, clusterv1.AddToScheme, lifecyclev1.AddToScheme)
		return builder.AddToScheme(s)
	}, func(e *testenv.Env) error {
		env = e
		return nil
	}))
}

// world is a Cluster, a policy for its upgrades, and the run of one upgrade.
type world struct {
	*run.Reconciler
	t       *testing.T
	clock   *clocktesting.FakeClock
	cluster *clusterv1.Cluster
	policy  *lifecyclev1.LifecyclePolicy
	key     client.ObjectKey
	effects *effects
	events  *recorder
}

func newWorld(t *testing.T, hook lifecyclev1.HookName, steps ...lifecyclev1.Step) *world {
	t.Helper()
	testenv.Skip(t)
	w := &world{t: t, clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second)), effects: &effects{}, events: &recorder{}}
	w.Reconciler = w.reconciler(env.Client)
	namespace := env.Namespace(t)
	w.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "edge", Labels: map[string]string{"site": "north"}}}
	w.cluster.Spec.Topology.ClassRef.Name = "slipway"
	w.cluster.Spec.Topology.Version = "v1.36.3"
	w.create(w.cluster)
	w.policy = &lifecyclev1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rules"}, Spec: lifecyclev1.LifecyclePolicySpec{
		Hooks: []lifecyclev1.HookPolicy{{Hook: hook, Steps: steps}},
	}}
	w.create(w.policy)
	created := &lifecyclev1.LifecycleRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "edge-1", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "edge", UID: w.cluster.UID,
		}}},
		Spec: lifecyclev1.LifecycleRunSpec{
			ClusterName: "edge", PolicyName: "rules", PolicyGeneration: 1, Mode: lifecyclev1.ModeEnforce, Hook: hook, Attempt: 1,
			Request: lifecyclev1.RunRequest{FromKubernetesVersion: "v1.35.4", ToKubernetesVersion: "v1.36.3"},
			Steps:   w.policy.Spec.Hooks[0].Steps,
		},
	}
	w.create(created)
	w.key = client.ObjectKeyFromObject(created)
	return w
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := env.Client.Create(ctx, o); err != nil {
		w.t.Fatal(err)
	}
}

// reconciler is a controller whose process is its own, and can be killed.
func (w *world) reconciler(c client.Client) *run.Reconciler {
	w.effects.t = w.t
	r := &run.Reconciler{Client: c, APIReader: c, Recorder: w.events, Clock: w.clock, KindOf: step.Of}
	use(r, "apply", &applier{effects: w.effects, client: c})
	use(r, "job", &jobs{effects: w.effects, client: c})
	return r
}

// executor executes the steps of a kind in its place.
type executor interface {
	Execute(ctx context.Context, in step.Input) (step.Result, error)
}

type replaced struct {
	step.Kind
	executor executor
}

func (r replaced) Execute(ctx context.Context, in step.Input) (step.Result, error) {
	return r.executor.Execute(ctx, in)
}

func (r replaced) Stop(ctx context.Context, in step.Input) error {
	if stopper, ok := r.executor.(step.Stopper); ok {
		return stopper.Stop(ctx, in)
	}
	return nil
}

// use has a controller execute the steps of a kind by e.
func use(r *run.Reconciler, kind string, e executor) {
	before := r.KindOf
	r.KindOf = func(s *lifecyclev1.Step) step.Kind {
		if step.Of(s).Name() == kind {
			return replaced{step.Of(s), e}
		}
		return before(s)
	}
}

// reconcile returns the run after one pass.
func (w *world) reconcile() (*lifecyclev1.LifecycleRun, ctrl.Result) {
	w.t.Helper()
	result, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: w.key})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.run(), result
}

func (w *world) run() *lifecyclev1.LifecycleRun {
	w.t.Helper()
	got := &lifecyclev1.LifecycleRun{}
	if err := env.Client.Get(ctx, w.key, got); err != nil {
		w.t.Fatal(err)
	}
	return got
}

// expect reconciles and checks where the run stands. An attempt that the machine was too
// busy for is waited for: the controller goes on without one after seconds.
func (w *world) expect(phase lifecyclev1.RunPhase, current, tells string) *lifecyclev1.LifecycleRun {
	w.t.Helper()
	const underWay = "under way"
	var got *lifecyclev1.LifecycleRun
	poll.True(w.t, "the attempt ends", func() bool {
		got, _ = w.reconcile()
		return tells == underWay || !strings.Contains(got.Status.Report, underWay)
	})
	if got.Status.Phase != phase || got.Status.Step != current || !strings.Contains(got.Status.Message, tells) {
		w.t.Fatalf("phase %s, step %q, message %q; want %s, %q, %q", got.Status.Phase, got.Status.Step, got.Status.Message, phase, current, tells)
	}
	return got
}

// decide does what the admission webhook does.
func (w *world) decide(decision lifecyclev1.DecisionType, name string) {
	w.t.Helper()
	got := w.run()
	before := got.DeepCopy()
	got.Spec.Decisions = append(got.Spec.Decisions, lifecyclev1.Decision{Type: decision, Step: name, By: "alice", Time: metav1.NewTime(w.clock.Now()), Reason: "because"})
	if err := env.Client.Patch(ctx, got, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) change(o client.Object, change func()) {
	w.t.Helper()
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		w.t.Fatal(err)
	}
	before, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		w.t.Fatalf("%T is no object", o)
	}
	change()
	if err := env.Client.Patch(ctx, o, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// effects is what happens outside of runs, and survives the controllers.
type effects struct {
	mu sync.Mutex
	t  *testing.T
	// executed are the attempts, in their order.
	executed []string
	// fail makes the attempts of steps fail.
	fail map[string]error
	// wait makes steps wait.
	wait map[string]bool
	// stopped are the steps whose jobs were stopped, and stuck the error that this is
	// answered with.
	stopped []string
	stuck   error
}

// attempt notes an attempt, and holds that the step has not ended.
func (e *effects) attempt(c client.Client, in step.Input) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	stored := &lifecyclev1.LifecycleRun{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(in.Run), stored); err != nil {
		return err
	}
	progress := stored.Progress(in.Step.Name)
	if progress == nil || progress.StartTime.IsZero() || progress.Outcome != "" {
		e.t.Errorf("step %s is executed with the record %+v", in.Step.Name, progress)
	}
	e.executed = append(e.executed, in.Step.Name)
	return e.fail[in.Step.Name]
}

// applier is an executor of a kind that does the same every time.
type applier struct {
	*effects
	client client.Client
}

func (a *applier) Execute(_ context.Context, in step.Input) (step.Result, error) {
	if err := a.attempt(a.client, in); err != nil {
		return step.Result{}, err
	}
	if a.wait[in.Step.Name] {
		return step.Result{Message: "1 of 2", After: 10 * time.Second}, nil
	}
	return step.Result{Done: true, Message: "applied"}, nil
}

// jobs is an executor of a kind that must not do it twice; ConfigMaps are its jobs.
type jobs struct {
	*effects
	client client.Client
}

func (j *jobs) Execute(_ context.Context, in step.Input) (step.Result, error) {
	if err := j.attempt(j.client, in); err != nil {
		return step.Result{}, err
	}
	name := step.Name(in.Run, in.Progress, "")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: in.Run.Namespace, Name: name}}
	ref := in.Progress.Job
	switch {
	case ref == nil:
		return step.Result{Job: &lifecyclev1.JobReference{Target: lifecyclev1.TargetManagement, Namespace: in.Run.Namespace, Name: name}}, nil
	case ref.UID == "":
		if err := j.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return step.Result{}, err
		}
		if err := j.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return step.Result{}, err
		}
		known := *ref
		known.UID = object.UID
		return step.Result{Job: &known}, nil
	}
	if err := j.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return step.Result{}, step.Terminal(err, "retry")
	}
	if j.wait[in.Step.Name] {
		return step.Result{Message: "runs", After: 10 * time.Second}, nil
	}
	return step.Result{Done: true, Message: "succeeded"}, nil
}

// Stop holds that the outcome is not stored before what is left has ended.
func (j *jobs) Stop(_ context.Context, in step.Input) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	stored := &lifecyclev1.LifecycleRun{}
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(in.Run), stored); err != nil {
		return err
	}
	if stored.Spec.Cancelled != "" || stored.Progress(in.Step.Name).Outcome != "" {
		j.t.Errorf("the job of step %s is stopped after its outcome was stored", in.Step.Name)
	}
	j.stopped = append(j.stopped, in.Step.Name)
	return j.stuck
}

// recorder keeps events.
type recorder struct {
	events.FakeRecorder
	mu    sync.Mutex
	notes []string
}

func (r *recorder) Eventf(regarding, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kind := "Cluster"
	if _, isRun := regarding.(*lifecyclev1.LifecycleRun); isRun {
		kind = "LifecycleRun"
	}
	r.notes = append(r.notes, kind+" "+reason)
}

func approvalStep() lifecyclev1.Step {
	return lifecyclev1.Step{Name: "go", Approval: &lifecyclev1.ApprovalStep{Message: "read the notes"}}
}

func applyStep(name string, change ...func(*lifecyclev1.Step)) lifecyclev1.Step {
	s := lifecyclev1.Step{Name: name, Apply: &lifecyclev1.ApplyStep{Sources: []lifecyclev1.ManifestSource{{Kind: "ConfigMap", Name: "cni"}}}}
	for _, c := range change {
		c(&s)
	}
	return s
}

func jobStep(name string) lifecyclev1.Step {
	return lifecyclev1.Step{Name: name, Job: &lifecyclev1.JobStep{Target: lifecyclev1.TargetManagement, Spec: runtime.RawExtension{Raw: []byte(`{"template":{}}`)}}}
}

var errRefused = errors.New("connection refused")
