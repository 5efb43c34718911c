package step_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/testenv"
)

func TestExpression(t *testing.T) {
	testenv.Skip(t)
	namespace := management.Namespace(t)
	cluster := testenv.NewCluster(t, management.Client, namespace)
	for _, name := range []string{"h1", "h2"} {
		host := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		host.Spec.HostID = "00000000-0000-0000-0000-00000000000" + name[1:]
		if err := management.Client.Create(t.Context(), host); err != nil {
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
			got, err := execute(t, newEnv(management.Client), step.Input{Run: run, Step: s, Cluster: cluster})
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
	_, err := execute(t, nil, step.Input{Run: &lifecyclev1.LifecycleRun{}, Step: s})
	if !step.IsTerminal(err) || !strings.Contains(err.Error(), "at character") {
		t.Errorf("got %v", err)
	}
}
