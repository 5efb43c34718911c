package runs

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

var start = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func reader(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, lifecyclev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func in(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }

// asked is a run whose first step is done and whose second waits for an approval.
func asked(name string, hook lifecyclev1.HookName) *lifecyclev1.LifecycleRun {
	at := metav1.NewTime(start)
	return &lifecyclev1.LifecycleRun{ObjectMeta: in(name), Spec: lifecyclev1.LifecycleRunSpec{
		ClusterName: "prod", PolicyName: "p", Hook: hook, Mode: lifecyclev1.ModeEnforce, Attempt: 1,
		Steps: []lifecyclev1.Step{
			{Name: "quota", Expression: &lifecyclev1.ExpressionStep{Expression: "true"}},
			{Name: "go", Approval: &lifecyclev1.ApprovalStep{Message: "may it?"}},
			{Name: "check", Job: &lifecyclev1.JobStep{}},
		},
		Progress: []lifecyclev1.StepProgress{
			{Name: "quota", StartTime: at, EndTime: at, Outcome: lifecyclev1.OutcomeSucceeded},
			{Name: "go", StartTime: at},
		},
	}}
}

func TestExplain(t *testing.T) {
	policy := &lifecyclev1.LifecyclePolicy{ObjectMeta: in("p"), Spec: lifecyclev1.LifecyclePolicySpec{
		Mode: lifecyclev1.ModeEnforce, Hooks: []lifecyclev1.HookPolicy{{Hook: lifecyclev1.BeforeClusterCreate}},
	}}
	other := policy.DeepCopy()
	other.Name, other.Spec.MatchCondition = "q", `cluster.metadata.name == "dev"`
	broken := policy.DeepCopy()
	broken.Name, broken.Spec.MatchCondition = "r", "cluster.spec.nothing == 1"
	c := reader(t, &clusterv1.Cluster{ObjectMeta: in("prod")}, policy, other, broken,
		asked("later", lifecyclev1.BeforeClusterDelete), asked("first", lifecyclev1.BeforeClusterCreate))
	e, err := Explain(t.Context(), c, client.ObjectKey{Namespace: "default", Name: "prod"}, start)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Render(&out, e); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"p  Enforce  true   BeforeClusterCreate", "its matchCondition is false", "whether it matches cannot be known, which holds the Cluster back: LifecyclePolicy r: spec.matchCondition",
		"WAITING, holds the cluster back", "quota  expression  Succeeded  2026-05-04T03:02:01Z  2026-05-04T03:02:01Z",
		"go     approval    Waiting", "check  job         Pending", "waits since 2026-05-04T03:02:01Z for approval (may it?)",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if len(e.Runs) != 2 || e.Runs[0].Name != "first" {
		t.Errorf("runs are not in the order of the hooks: %+v", e.Runs)
	}
}

// What waits besides what was asked about is told: nobody looks for a policy who only
// wanted to scale.
func TestExplainTellsWhatIsDelayed(t *testing.T) {
	delaying := []lifecyclev1.HookName{
		lifecyclev1.BeforeClusterUpgrade, lifecyclev1.BeforeControlPlaneUpgrade, lifecyclev1.AfterControlPlaneUpgrade, lifecyclev1.BeforeWorkersUpgrade,
	}
	for _, hook := range lifecyclev1.Hooks() {
		cluster := &clusterv1.Cluster{ObjectMeta: in("prod")}
		e, err := Explain(t.Context(), reader(t, cluster, asked("first", hook)), client.ObjectKeyFromObject(cluster), start)
		if err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(e.Runs[0].Message, "such as scaling"); told != slices.Contains(delaying, hook) {
			t.Errorf("%s: blocks %t, %s", hook, e.Runs[0].Blocks, e.Runs[0].Message)
		}
	}
}

func TestExplainTellsThatNoHookIsCalled(t *testing.T) {
	policy := &lifecyclev1.LifecyclePolicy{ObjectMeta: in("p"), Spec: lifecyclev1.LifecyclePolicySpec{Mode: lifecyclev1.ModeEnforce}}
	for version, told := range map[string]bool{"": true, "v1.36.3": false} {
		cluster := &clusterv1.Cluster{ObjectMeta: in("prod")}
		if version != "" {
			cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: version}
		}
		e, err := Explain(t.Context(), reader(t, cluster, policy.DeepCopy()), client.ObjectKeyFromObject(cluster), start)
		if err != nil {
			t.Fatal(err)
		}
		if message := e.Policies[0].Message; strings.Contains(message, "calls no hooks") != told {
			t.Errorf("topology %q: %q", version, message)
		}
	}
}

// What a policy of enforcement All holds back is told, and while nobody asks, why not.
func TestExplainTellsWhatAdmissionHoldsBack(t *testing.T) {
	for reason, want := range map[string]string{
		lifecyclev1.HooksCalledReason: "but creation and deletion, which admission holds back", lifecyclev1.EnforcementNotEnabledReason: "label it",
	} {
		policy := &lifecyclev1.LifecyclePolicy{ObjectMeta: in("p"), Spec: lifecyclev1.LifecyclePolicySpec{Enforcement: lifecyclev1.EnforcementAll}}
		policy.Status.Conditions = []metav1.Condition{{Type: lifecyclev1.EffectiveCondition, Reason: reason, Message: "label it"}}
		cluster := &clusterv1.Cluster{ObjectMeta: in("prod")}
		e, err := Explain(t.Context(), reader(t, cluster, policy), client.ObjectKeyFromObject(cluster), start)
		if err != nil || !strings.Contains(e.Policies[0].Message, want) {
			t.Errorf("%s: %+v, %v", reason, e.Policies, err)
		}
	}
}

func TestToApprove(t *testing.T) {
	key := func(name string) client.ObjectKey { return client.ObjectKey{Namespace: "default", Name: name} }
	one := reader(t, asked("first", lifecyclev1.BeforeClusterCreate))
	two := reader(t, asked("first", lifecyclev1.BeforeClusterCreate), asked("second", lifecyclev1.BeforeClusterCreate))
	for name, test := range map[string]struct {
		c          client.Client
		name, step string
		run, err   string
	}{
		"the cluster's":  {c: one, name: "prod", run: "first"},
		"the run":        {c: two, name: "second", run: "second"},
		"several":        {c: two, name: "prod", err: "name one of first, second"},
		"another step":   {c: one, name: "prod", step: "quota", err: "Cluster prod has no pending approval"},
		"nobody's":       {c: one, name: "dev", err: "there is no LifecycleRun dev"},
		"nothing waits":  {c: reader(t), name: "prod", err: "Cluster prod has no pending approval"},
		"as it is named": {c: one, name: "prod", step: "go", run: "first"},
	} {
		run, step, err := ToApprove(t.Context(), test.c, key(test.name), test.step)
		switch {
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%s: error %v, want %q", name, err, test.err)
		case test.err == "" && (err != nil || run.Name != test.run || step != "go"):
			t.Errorf("%s: %v, step %q, %v", name, run, step, err)
		}
	}
}

// Without the webhook the annotation stays an annotation: nobody must believe it was
// a decision.
func TestDecisionThatWasNotRecorded(t *testing.T) {
	run := asked("first", lifecyclev1.BeforeClusterCreate)
	c := reader(t, run)
	stored, err := Find(t.Context(), c, client.ObjectKeyFromObject(run))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decide(t.Context(), c, stored, lifecyclev1.DecisionApprove, "go", "because"); err == nil || !strings.Contains(err.Error(), "was not recorded") {
		t.Errorf("got %v", err)
	}
}

// archived are the Secrets of an archive of two parts.
func archived(t *testing.T, name string, began time.Time, parts ...string) []client.Object {
	t.Helper()
	index := step.ArchiveIndex{Cluster: "prod", StartTime: metav1.NewTime(began), Digest: step.ArchiveDigest([]byte(strings.Join(parts, "")))}
	var objects []client.Object
	for i, part := range parts {
		secret := &corev1.Secret{ObjectMeta: in(name + "-" + string(rune('0'+i))), Type: step.ArchivePartType, Data: map[string][]byte{step.ArchivePartKey: []byte(part)}}
		index.Parts = append(index.Parts, step.ArchivePart{Secret: secret.Name, Digest: step.ArchiveDigest([]byte(part))})
		objects = append(objects, secret)
	}
	data, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: in(name), Type: step.ArchiveIndexType, Data: map[string][]byte{step.ArchiveIndexKey: data}}
	secret.Labels = map[string]string{lifecyclev1.ArchiveLabel: "prod"}
	return append(objects, secret)
}

func TestArchivesAreWholeOrRefused(t *testing.T) {
	objects := slices.Concat(archived(t, "new", start.Add(time.Hour), "a", "b"), archived(t, "old", start, "c"))
	c := reader(t, objects...)
	archives, err := Archives(t.Context(), c, "default", client.ObjectKey{Namespace: "default", Name: "prod"})
	if err != nil || len(archives) != 2 || archives[1].Name != "new" {
		t.Fatalf("archives %+v, %v", archives, err)
	}
	newest := &archives[1]
	if data, err := Assemble(t.Context(), c, "default", newest); err != nil || string(data) != "ab" {
		t.Errorf("got %q, %v", data, err)
	}
	part := &corev1.Secret{ObjectMeta: in("new-1"), Type: step.ArchivePartType, Data: map[string][]byte{step.ArchivePartKey: []byte("x")}}
	if err := c.Update(t.Context(), part); err != nil {
		t.Fatal(err)
	}
	if _, err := Assemble(t.Context(), c, "default", newest); err == nil || !strings.Contains(err.Error(), "Secret new-1 has the digest") {
		t.Errorf("a changed part: %v", err)
	}
	if err := c.Delete(t.Context(), part); err != nil {
		t.Fatal(err)
	}
	if _, err := Assemble(t.Context(), c, "default", newest); err == nil || !strings.Contains(err.Error(), "archive new is not whole") {
		t.Errorf("a missing part: %v", err)
	}
}

// Where Clusters of several namespaces keep their archives, each is given its own.
func TestArchivesOfAnotherNamespace(t *testing.T) {
	c := reader(t, archived(t, "of-team", start, "a")...)
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "of-team"}, secret); err != nil {
		t.Fatal(err)
	}
	secret.Data[step.ArchiveIndexKey] = bytes.Replace(secret.Data[step.ArchiveIndexKey], []byte(`"cluster":"prod"`), []byte(`"cluster":"prod","namespace":"team"`), 1)
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]int{"team": 1, "default": 0, "other": 0} {
		if got, err := Archives(t.Context(), c, "default", client.ObjectKey{Namespace: namespace, Name: "prod"}); err != nil || len(got) != want {
			t.Errorf("Cluster %s/prod: archives %+v, %v, want %d", namespace, got, err, want)
		}
	}
}

func TestLogsAreFoundByRunAndStep(t *testing.T) {
	run := asked("first", lifecyclev1.BeforeClusterCreate)
	log := func(name, run, step, text string) *corev1.Secret {
		secret := &corev1.Secret{ObjectMeta: in(name), Data: map[string][]byte{"pod.check.log": []byte(text)}}
		secret.Labels = map[string]string{lifecyclev1.RunLabel: run, lifecyclev1.StepLabel: step}
		return secret
	}
	c := reader(t, log("a", "first", "check", "well done"), log("b", "other", "check", "not this"), log("c", "first", "else", "nor this"))
	var out bytes.Buffer
	if err := Logs(t.Context(), c, run, "check", &out); err != nil || out.String() != "==> a/pod.check.log <==\nwell done\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	if err := Logs(t.Context(), c, run, "go", &out); err == nil || !strings.Contains(err.Error(), `no job step "go"`) {
		t.Errorf("a step without a Job: %v", err)
	}
	if err := Logs(t.Context(), reader(t), run, "check", &out); err == nil || !strings.Contains(err.Error(), "it has not begun") {
		t.Errorf("a step that has not begun: %v", err)
	}
}
