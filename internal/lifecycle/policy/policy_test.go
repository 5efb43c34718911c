package policy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/policy"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

var (
	env *testenv.Env
	ctx = context.Background()
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(s *runtime.Scheme) error {
		builder := runtime.NewSchemeBuilder(corev1.AddToScheme, rbacv1.AddToScheme, clusterv1.AddToScheme, lifecyclev1.AddToScheme)
		return builder.AddToScheme(s)
	}, func(e *testenv.Env) error {
		env = e
		return nil
	}))
}

type world struct {
	*policy.Reconciler
	t         *testing.T
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	testenv.Skip(t)
	return newWorldAs(t, env.Config)
}

// newWorldAs has the rights of a user looked at.
func newWorldAs(t *testing.T, user *rest.Config) *world {
	t.Helper()
	testenv.Skip(t)
	own, err := rights.New(user)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, namespace: env.Namespace(t), Reconciler: &policy.Reconciler{
		Client: env.Client, APIReader: env.Client, Rights: own, Clock: clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)),
		Validate: func(*lifecyclev1.LifecyclePolicy) error { return nil },
	}}
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	o.SetNamespace(w.namespace)
	if err := env.Client.Create(ctx, o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) cluster(name, version string, labels map[string]string) *clusterv1.Cluster {
	w.t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	cluster.Spec.Topology.ClassRef.Name, cluster.Spec.Topology.Version = "slipway", version
	w.create(cluster)
	return cluster
}

func (w *world) policy(name string, steps ...lifecyclev1.Step) *lifecyclev1.LifecyclePolicy {
	w.t.Helper()
	p := &lifecyclev1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: lifecyclev1.LifecyclePolicySpec{
		Hooks: []lifecyclev1.HookPolicy{{Hook: lifecyclev1.BeforeClusterUpgrade, Steps: steps}},
	}}
	w.create(p)
	return p
}

func (w *world) reconcile(name string) (*lifecyclev1.LifecyclePolicy, *metav1.Condition) {
	w.t.Helper()
	key := client.ObjectKey{Namespace: w.namespace, Name: name}
	if _, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: key}); err != nil {
		w.t.Fatal(err)
	}
	p := &lifecyclev1.LifecyclePolicy{}
	if err := env.Client.Get(ctx, key, p); err != nil {
		w.t.Fatal(err)
	}
	return p, meta.FindStatusCondition(p.Status.Conditions, lifecyclev1.ReadyCondition)
}

func (w *world) expect(name, reason string, tells ...string) {
	w.t.Helper()
	p, ready := w.reconcile(name)
	if ready == nil || ready.Reason != reason || (ready.Status == metav1.ConditionTrue) != (reason == lifecyclev1.PolicyReadyReason) || p.Status.ObservedGeneration != p.Generation {
		w.t.Fatalf("Ready is %+v, want %s", ready, reason)
	}
	for _, part := range tells {
		if !strings.Contains(ready.Message, part) {
			w.t.Errorf("%q does not tell %q", ready.Message, part)
		}
	}
}

// A policy that wants Clusters without a topology held back tells while nobody asks about
// them, and what cannot be held back.
func TestEnforcementTellsWhatIsNotHeldBack(t *testing.T) {
	w := newWorld(t)
	p := w.policy("gate", approvalStep())
	change := func(change func(*lifecyclev1.LifecyclePolicy)) {
		t.Helper()
		stored, _ := w.reconcile(p.Name)
		change(stored)
		if err := env.Client.Update(ctx, stored); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(status metav1.ConditionStatus, reason, tells string) {
		t.Helper()
		stored, _ := w.reconcile(p.Name)
		effective := meta.FindStatusCondition(stored.Status.Conditions, lifecyclev1.EffectiveCondition)
		if effective == nil || effective.Status != status || effective.Reason != reason || !strings.Contains(effective.Message, tells) {
			t.Fatalf("Effective is %+v, want %s %s and to tell %q", effective, status, reason, tells)
		}
	}
	bare := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "bare"}}
	bare.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "example.com", Kind: "Plain", Name: "bare"}
	w.create(bare)
	change(func(p *lifecyclev1.LifecyclePolicy) { p.Spec.Hooks[0].Hook = lifecyclev1.BeforeClusterDelete })
	expect(metav1.ConditionFalse, lifecyclev1.ClusterWithoutTopologyReason, "or set spec.enforcement to All")
	change(func(p *lifecyclev1.LifecyclePolicy) { p.Spec.Enforcement = lifecyclev1.EnforcementAll })
	expect(metav1.ConditionFalse, lifecyclev1.EnforcementNotEnabledReason, "kubectl label namespace "+w.namespace+" lifecycle.slipway.dev/enforcement=All")
	if result, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p)}); err != nil || result.RequeueAfter > time.Minute {
		t.Errorf("the label, which is not watched, is looked for again after %s, %v", result.RequeueAfter, err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"lifecycle.slipway.dev/enforcement":"All"}}}`))
	if err := env.Client.Patch(ctx, namespace, label); err != nil {
		t.Fatal(err)
	}
	expect(metav1.ConditionTrue, lifecyclev1.HooksCalledReason, "")
	change(func(p *lifecyclev1.LifecyclePolicy) {
		p.Spec.Hooks = append(p.Spec.Hooks, lifecyclev1.HookPolicy{Hook: lifecyclev1.BeforeClusterUpgrade, Steps: p.Spec.Hooks[0].Steps})
	})
	expect(metav1.ConditionFalse, lifecyclev1.ClusterWithoutTopologyReason, "holds nothing but creation and deletion back of bare")
	change(func(p *lifecyclev1.LifecyclePolicy) { p.Spec.Hooks = p.Spec.Hooks[1:] })
	expect(metav1.ConditionFalse, lifecyclev1.ClusterWithoutTopologyReason, "holds nothing back of bare")
}

// A Cluster for which no hook is called is told of: its author believes it guarded.
func TestAClusterWithoutATopologyIsToldOf(t *testing.T) {
	w := newWorld(t)
	p := w.policy("gate", approvalStep())
	w.cluster("of-a-class", "v1.36.3", nil)
	expect := func(status metav1.ConditionStatus, reason string, names ...string) {
		t.Helper()
		stored, _ := w.reconcile(p.Name)
		effective := meta.FindStatusCondition(stored.Status.Conditions, lifecyclev1.EffectiveCondition)
		if effective == nil || effective.Status != status || effective.Reason != reason {
			t.Fatalf("Effective is %+v, want %s %s", effective, status, reason)
		}
		for _, name := range names {
			if !strings.Contains(effective.Message, name) {
				t.Errorf("%q does not name %s", effective.Message, name)
			}
		}
		if strings.Contains(effective.Message, "of-a-class") {
			t.Errorf("%q names a Cluster with a topology", effective.Message)
		}
	}
	expect(metav1.ConditionTrue, lifecyclev1.HooksCalledReason)
	for i := range 12 {
		bare := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("bare-%02d", i)}}
		bare.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "example.com", Kind: "Plain", Name: "bare"}
		w.create(bare)
		if i == 0 {
			expect(metav1.ConditionFalse, lifecyclev1.ClusterWithoutTopologyReason, "bare-00")
		}
	}
	expect(metav1.ConditionFalse, lifecyclev1.ClusterWithoutTopologyReason, "bare-09, 2 more")
	stored, _ := w.reconcile(p.Name)
	stored.Spec.MatchCondition = `cluster.metadata.name == "of-a-class"`
	if err := env.Client.Update(ctx, stored); err != nil {
		t.Fatal(err)
	}
	expect(metav1.ConditionTrue, lifecyclev1.HooksCalledReason)
}

func windowStep(name, cron string) lifecyclev1.Step {
	return lifecyclev1.Step{Name: name, Window: &lifecyclev1.WindowStep{Schedule: cron, DurationSeconds: 3600}}
}

func approvalStep() lifecyclev1.Step {
	return lifecyclev1.Step{Name: "go", Approval: &lifecyclev1.ApprovalStep{}}
}

func TestReadyWhenReferencesExist(t *testing.T) {
	w := newWorld(t)
	w.policy("addons",
		lifecyclev1.Step{Name: "cni", Apply: &lifecyclev1.ApplyStep{Sources: []lifecyclev1.ManifestSource{{Kind: "ConfigMap", Name: "cni"}, {Kind: "Secret", Name: "pull"}, {Kind: "ConfigMap", Name: "cni", Key: "b"}}}},
		lifecyclev1.Step{Name: "call", Webhook: &lifecyclev1.WebhookStep{URL: "https://a.example.com", SecretName: "sign"}})
	w.expect("addons", lifecyclev1.ReferenceNotFoundReason, "ConfigMap cni, Secret pull, Secret sign; create it")
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cni"}})
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "sign"}})
	w.expect("addons", lifecyclev1.ReferenceNotFoundReason, ": Secret pull; create it")
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pull"}})
	w.expect("addons", lifecyclev1.PolicyReadyReason)
}

// What the engine may not do is told before what is missing, which it could not know.
func TestNotReadyWithoutRights(t *testing.T) {
	testenv.Skip(t)
	w := newWorldAs(t, env.As("an-engine"))
	w.policy("gates", approvalStep())
	w.expect("gates", lifecyclev1.PolicyReadyReason)
	w.policy("calls", lifecyclev1.Step{Name: "call", Webhook: &lifecyclev1.WebhookStep{URL: "https://a.example.com", SecretName: "sign"}})
	w.expect("calls", lifecyclev1.RightsMissingReason, "may not get secrets sign in namespace "+w.namespace,
		"kubectl create rolebinding slipway-lifecycle-steps -n "+w.namespace+" --clusterrole=slipway-lifecycle-steps --user=an-engine")
	w.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: []string{"sign"}},
	}})
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "own"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "own"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "an-engine"}},
	})
	poll.Until(t, "the API server knows of the Role", func() error {
		if _, ready := w.reconcile("calls"); ready.Reason == lifecyclev1.RightsMissingReason {
			return errors.New(ready.Message)
		}
		return nil
	})
	w.expect("calls", lifecyclev1.ReferenceNotFoundReason, "Secret sign; create it")
}

func TestInvalidPoliciesSaySo(t *testing.T) {
	w := newWorld(t)
	w.Validate = func(*lifecyclev1.LifecyclePolicy) error { return errors.New("spec.matchCondition: at character 3") }
	w.policy("broken", approvalStep())
	w.expect("broken", lifecyclev1.InvalidPolicyReason, "spec.matchCondition: at character 3")
}

func TestWindowsThatNeverMeetConflict(t *testing.T) {
	w := newWorld(t)
	w.policy("night", windowStep("night", "0 1 * * *"))
	w.policy("noon", windowStep("noon", "0 12 * * *"))
	w.expect("night", lifecyclev1.PolicyConflictReason, "BeforeClusterUpgrade", "step night", "step noon of LifecyclePolicy noon", "change one of them")
	w.expect("noon", lifecyclev1.PolicyConflictReason, "LifecyclePolicy night")

	// With clusters, only what selects the same one conflicts.
	w.cluster("a", "v1.36.3", map[string]string{"site": "north"})
	w.cluster("b", "v1.36.3", map[string]string{"site": "south"})
	selecting := func(name, site string) {
		t.Helper()
		p, _ := w.reconcile(name)
		p.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"site": site}}
		if err := env.Client.Update(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	selecting("night", "north")
	selecting("noon", "south")
	w.expect("night", lifecyclev1.PolicyReadyReason)
	selecting("noon", "north")
	w.expect("night", lifecyclev1.PolicyConflictReason)
	p, _ := w.reconcile("noon")
	p.Spec.Mode = lifecyclev1.ModeAudit
	if err := env.Client.Update(ctx, p); err != nil {
		t.Fatal(err)
	}
	w.expect("night", lifecyclev1.PolicyReadyReason)
	w.expect("noon", lifecyclev1.PolicyReadyReason)
}

func TestTwoWindowsOfOneHookMustMeet(t *testing.T) {
	w := newWorld(t)
	w.policy("both", windowStep("night", "0 1 * * *"), windowStep("noon", "0 12 * * *"))
	w.expect("both", lifecyclev1.PolicyConflictReason, "step night", "step noon")
	w.policy("meeting", windowStep("night", "0 1 * * *"), windowStep("saturday", "30 1 * * 6"))
	_, ready := w.reconcile("meeting")
	if strings.Contains(ready.Message, "saturday") {
		t.Errorf("got %q", ready.Message)
	}
}

// run makes a run that was last busy some hours ago.
func (w *world) run(name string, cluster *clusterv1.Cluster, hoursAgo int, change func(*lifecyclev1.LifecycleRun)) {
	w.t.Helper()
	at := metav1.NewTime(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(-time.Duration(hoursAgo) * time.Hour))
	r := &lifecyclev1.LifecycleRun{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
		}}},
		Spec: lifecyclev1.LifecycleRunSpec{
			ClusterName: cluster.Name, PolicyName: "rules", PolicyGeneration: 1, Mode: lifecyclev1.ModeEnforce, Attempt: 1,
			Hook:     lifecyclev1.BeforeClusterUpgrade,
			Request:  lifecyclev1.RunRequest{FromKubernetesVersion: "v1.30.0", ToKubernetesVersion: fmt.Sprintf("v1.31.%d", hoursAgo)},
			Steps:    []lifecyclev1.Step{approvalStep()},
			Progress: []lifecyclev1.StepProgress{{Name: "go", StartTime: at, EndTime: at, Outcome: lifecyclev1.OutcomeSucceeded}},
		},
	}
	if change != nil {
		change(r)
	}
	w.create(r)
}

func (w *world) runs() []string {
	w.t.Helper()
	list := &lifecyclev1.LifecycleRunList{}
	if err := env.Client.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, r := range list.Items {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

func TestHistoryIsPruned(t *testing.T) {
	w := newWorld(t)
	p := w.policy("rules", approvalStep())
	p.Spec.RunHistoryLimit = ptr.To[int32](2)
	if err := env.Client.Update(ctx, p); err != nil {
		t.Fatal(err)
	}
	a, b := w.cluster("a", "v1.31.9", nil), w.cluster("b", "v1.36.3", nil)
	// Neither when they were created nor their names tell their order, as after
	// clusterctl move.
	for _, hours := range []int{3, 1, 4, 2} {
		w.run(fmt.Sprintf("%c-%d", 'z'-hours, hours), a, hours, nil)
	}
	w.run("a-wanted", a, 9, nil)
	w.run("a-wanted-before", a, 10, func(r *lifecyclev1.LifecycleRun) { r.Spec.Request.ToKubernetesVersion = "v1.31.9" })
	w.run("a-waits", a, 11, func(r *lifecyclev1.LifecycleRun) { r.Spec.Progress = nil })
	w.run("a-failed", a, 12, func(r *lifecyclev1.LifecycleRun) { r.Spec.Progress[0].Outcome = lifecyclev1.OutcomeFailed })
	w.run("a-cancelled", a, 13, func(r *lifecyclev1.LifecycleRun) { r.Spec.Cancelled = "called off" })
	w.run("a-delete", a, 14, func(r *lifecyclev1.LifecycleRun) {
		r.Spec.Hook, r.Spec.Request = lifecyclev1.BeforeClusterDelete, lifecyclev1.RunRequest{}
	})
	w.run("b-old", b, 20, nil)
	w.run("other-policy", a, 21, func(r *lifecyclev1.LifecycleRun) { r.Spec.PolicyName = "other" })

	got, _ := w.reconcile("rules")
	if ptr.Deref(got.Status.ActiveRuns, -1) != 2 {
		t.Errorf("active runs: %v", got.Status.ActiveRuns)
	}
	want := []string{"a-delete", "a-failed", "a-waits", "a-wanted", "b-old", "other-policy", "x-2", "y-1"}
	if names := w.runs(); !slices.Equal(names, want) {
		t.Errorf("kept %v, want %v", names, want)
	}
}

func TestNothingIsPrunedWhileAClusterIsMoved(t *testing.T) {
	w := newWorld(t)
	w.policy("rules", approvalStep())
	a := w.cluster("a", "v1.36.3", nil)
	a.Spec.Paused = ptr.To(true)
	if err := env.Client.Update(ctx, a); err != nil {
		t.Fatal(err)
	}
	for hours := range 6 {
		w.run(fmt.Sprintf("a-%d", hours), a, hours, nil)
	}
	w.reconcile("rules")
	if names := w.runs(); len(names) != 6 {
		t.Errorf("kept %v", names)
	}
}
