package step_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
	"github.com/slipway-dev/slipway/internal/testenv"
)

type waitFixture struct {
	env       *step.Env
	in        step.Input
	namespace string
}

// newWaitFixture makes a step over the ConfigMaps of its own namespace of the workload
// cluster, as change has it.
func newWaitFixture(t *testing.T, expression string, change func(*lifecyclev1.WaitStep)) *waitFixture {
	t.Helper()
	testenv.Skip(t)
	namespace := management.Namespace(t)
	if err := other.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	s := &lifecyclev1.WaitStep{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Expression: expression}
	if change != nil {
		change(s)
	}
	cluster := management.NewWorkloadCluster(t, namespace, other)
	return &waitFixture{
		env:       newEnv(management.Client),
		in:        testenv.NewStep(t, management.Client, cluster, lifecyclev1.AfterControlPlaneInitialized, lifecyclev1.Step{Name: "ready", Wait: s}),
		namespace: namespace,
	}
}

func (f *waitFixture) configMap(t *testing.T, name string, labels, data map[string]string) {
	t.Helper()
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name, Labels: labels}, Data: data}
	if err := other.Client.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func (f *waitFixture) execute(t *testing.T) step.Result {
	t.Helper()
	result, err := execute(t, f.env, f.in)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func (f *waitFixture) waits(t *testing.T, message string) step.Result {
	t.Helper()
	result := f.execute(t)
	if result.Done || !strings.Contains(result.Message, message) {
		t.Errorf("got %+v, want to wait with %q", result, message)
	}
	return result
}

func (f *waitFixture) done(t *testing.T) {
	t.Helper()
	if result := f.execute(t); !result.Done {
		t.Errorf("waits with %q", result.Message)
	}
}

func TestItWaitsUntilTheObjectsAreAsTheyMustBe(t *testing.T) {
	f := newWaitFixture(t, `objects.size() == 2 && objects.all(o, o.data.ready == "yes")`, func(s *lifecyclev1.WaitStep) {
		s.Message, s.IntervalSeconds = "the add-ons start", ptr.To[int32](7)
	})
	if result := f.waits(t, "the add-ons start: the expression is false for 0 objects of kind ConfigMap"); result.After != 7*time.Second {
		t.Errorf("looks again after %s", result.After)
	}
	f.configMap(t, "a", nil, map[string]string{"ready": "yes"})
	f.configMap(t, "b", nil, map[string]string{"ready": "yes"})
	f.done(t)
}

func TestAFieldThatIsNotThereYetIsWaitedFor(t *testing.T) {
	f := newWaitFixture(t, `objects.all(o, o.data.ready == "yes")`, nil)
	f.configMap(t, "a", nil, nil)
	if result := f.waits(t, "cannot be evaluated for 1 objects"); result.After != 5*time.Second {
		t.Errorf("looks again after %s", result.After)
	}
}

func TestAKindThatIsNotThereYetIsWaitedFor(t *testing.T) {
	f := newWaitFixture(t, `true`, func(s *lifecyclev1.WaitStep) { s.APIVersion, s.Kind = "example.com/v1", "Widget" })
	f.waits(t, "does not know the kind Widget of example.com/v1")
}

func TestNamesLabelsAndNamespacesSelect(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*lifecyclev1.WaitStep)
		want   []string
	}{
		"namespace": {func(*lifecyclev1.WaitStep) {}, []string{"a", "b"}},
		"name":      {func(s *lifecyclev1.WaitStep) { s.Name = "b" }, []string{"b"}},
		"labels": {func(s *lifecyclev1.WaitStep) {
			s.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"l": "a"}}
		}, []string{"a"}},
		"all namespaces": {func(s *lifecyclev1.WaitStep) { s.Namespace, s.Name = "", "kube-root-ca.crt" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newWaitFixture(t, fmt.Sprintf(`objects.map(o, o.metadata.name) == %s`, listOf(c.want)), c.change)
			f.configMap(t, "a", map[string]string{"l": "a"}, nil)
			f.configMap(t, "b", map[string]string{"l": "b"}, nil)
			f.done(t)
		})
	}
}

func listOf(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func TestKindsWithoutNamespaceAndOtherVariables(t *testing.T) {
	f := newWaitFixture(t, `objects.exists(o, o.metadata.name == "kube-system") && cluster.metadata.name == "c1" && clusters.size() == 1 && hosts.size() == 0 && request.hook == "AfterControlPlaneInitialized"`,
		func(s *lifecyclev1.WaitStep) { s.Kind, s.Namespace = "Namespace", "" })
	f.done(t)
}

func TestAllPagesAreRead(t *testing.T) {
	const count = workload.PageSize + 1
	f := newWaitFixture(t, fmt.Sprintf(`objects.size() == %d`, count), nil)
	for i := range count {
		f.configMap(t, fmt.Sprintf("c%d", i), nil, nil)
	}
	f.done(t)
}

func TestMoreObjectsThanFitAreRefused(t *testing.T) {
	f := newWaitFixture(t, `true`, nil)
	f.env.Workload = repeatingClients{f.env.Workload}
	_, err := execute(t, f.env, f.in)
	if !step.IsTerminal(err) || !strings.Contains(err.Error(), "more than 5000 objects") || !strings.Contains(err.Error(), "labelSelector") {
		t.Errorf("got %v", err)
	}
}

func TestAWaitForAnUnreachableClusterFailsTheAttempt(t *testing.T) {
	f := newWaitFixture(t, `true`, nil)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "c1-kubeconfig"}}
	if err := management.Client.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	_, err := execute(t, f.env, f.in)
	if !workload.IsUnavailable(err) || step.IsTerminal(err) {
		t.Errorf("got %v", err)
	}
}

func TestABadExpressionIsNotTriedAgain(t *testing.T) {
	f := newWaitFixture(t, `objects.size(`, nil)
	_, err := execute(t, f.env, f.in)
	if !step.IsTerminal(err) || !strings.Contains(err.Error(), "wait.expression") {
		t.Errorf("got %v", err)
	}
}

func TestAuditDoesNotWait(t *testing.T) {
	f := newWaitFixture(t, `false`, nil)
	f.in.Run.Spec.Mode = lifecyclev1.ModeAudit
	f.done(t)
}

// repeatingClients gives access to a cluster whose lists never end.
type repeatingClients struct{ workload.Clients }

func (r repeatingClients) For(ctx context.Context, cluster types.NamespacedName) (*workload.Cluster, error) {
	access, err := r.Clients.For(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return &workload.Cluster{Client: endlessLists{access.Client}, Config: access.Config}, nil
}

type endlessLists struct{ client.Client }

func (endlessLists) List(_ context.Context, l client.ObjectList, _ ...client.ListOption) error {
	page := l.(*unstructured.UnstructuredList)
	page.Items = make([]unstructured.Unstructured, workload.PageSize)
	for i := range page.Items {
		page.Items[i].Object = map[string]any{}
	}
	page.SetContinue("more")
	return nil
}
