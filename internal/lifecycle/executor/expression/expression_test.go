package expression_test

import (
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/lifecycle/executor/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(s *runtime.Scheme) error {
		builder := runtime.NewSchemeBuilder(corev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme)
		return builder.AddToScheme(s)
	}, func(e *testenv.Env) error {
		env = e
		return nil
	}))
}

func TestExecute(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	cluster := testenv.NewCluster(t, env.Client, namespace)
	for _, name := range []string{"h1", "h2"} {
		host := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		host.Spec.HostID = "00000000-0000-0000-0000-00000000000" + name[1:]
		if err := env.Client.Create(t.Context(), host); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, expression string
		mode             lifecyclev1.PolicyMode
		done             bool
		message          string
	}{
		{"hosts of the namespace", `hosts.size() == 2 && hosts.exists(h, h.metadata.name == "h2")`, lifecyclev1.ModeEnforce, true, "is true"},
		{"clusters of the namespace", `clusters.size() == 1 && clusters[0].metadata.name == cluster.metadata.name`, lifecyclev1.ModeEnforce, true, "is true"},
		{"request", `request.hook == "BeforeClusterUpgrade" && request.toKubernetesVersion == "v1.36.3" && !has(request.kubernetesVersion)`, lifecyclev1.ModeEnforce, true, "is true"},
		{"false", `hosts.size() > 2`, lifecyclev1.ModeEnforce, false, "is false"},
		{"a field that is not there yet", `hosts.all(h, h.status.phase == "Available")`, lifecyclev1.ModeEnforce, false, "no such key"},
		{"audit", `hosts.size() > 2`, lifecyclev1.ModeAudit, true, "would wait: the expression is false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := &lifecyclev1.LifecycleRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: lifecyclev1.LifecycleRunSpec{
				Mode: c.mode, Hook: lifecyclev1.BeforeClusterUpgrade, Request: lifecyclev1.RunRequest{ToKubernetesVersion: "v1.36.3"},
			}}
			s := &lifecyclev1.Step{Expression: &lifecyclev1.ExpressionStep{Expression: c.expression, IntervalSeconds: ptr.To[int32](7)}}
			got, err := expression.New(env.Client).Execute(t.Context(), step.Input{Run: run, Step: s, Cluster: cluster})
			if err != nil || got.Done != c.done || !strings.Contains(got.Message, c.message) {
				t.Errorf("got %+v, %v", got, err)
			}
			if !got.Done && got.After != 7*time.Second {
				t.Errorf("looks again after %s", got.After)
			}
		})
	}
}

func TestExpressionsThatDoNotCompileAreNotRepeated(t *testing.T) {
	s := &lifecyclev1.Step{Expression: &lifecyclev1.ExpressionStep{Expression: "hosts.size() >"}}
	_, err := expression.New(nil).Execute(t.Context(), step.Input{Run: &lifecyclev1.LifecycleRun{}, Step: s})
	if !step.IsTerminal(err) || !strings.Contains(err.Error(), "at character") {
		t.Errorf("got %v", err)
	}
}
