package expression_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
)

func variables(t testing.TB, hosts int) map[string]any {
	t.Helper()
	cluster := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "edge", Labels: map[string]string{"site": "north"}}}
	cluster.Spec.Topology.ClassRef.Name = "slipway"
	cluster.Spec.Topology.Version = "v1.36.3"
	in := expression.Inputs{
		Cluster: &cluster,
		Hook:    lifecyclev1.BeforeClusterUpgrade,
		Request: lifecyclev1.RunRequest{
			FromKubernetesVersion: "v1.35.4", ToKubernetesVersion: "v1.36.3",
			ControlPlaneUpgrades: []lifecyclev1.UpgradeStep{{Version: "v1.36.3"}, {Version: "v1.37.0"}},
		},
		Hosts:    make([]infrav1.Host, hosts),
		Clusters: []clusterv1.Cluster{cluster},
		Objects: []unstructured.Unstructured{{Object: map[string]any{
			"kind": "Deployment", "spec": map[string]any{"replicas": int64(2)}, "status": map[string]any{"readyReplicas": int64(2)},
		}}},
	}
	for i := range in.Hosts {
		in.Hosts[i].Name = "host"
	}
	v, err := expression.Variables(in)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEval(t *testing.T) {
	for _, c := range []struct {
		kind       expression.Kind
		expression string
		want       bool
	}{
		{expression.Match, `cluster.spec.topology.classRef.name == "slipway"`, true},
		{expression.Match, `cluster.metadata.labels["site"] in ["south"]`, false},
		{expression.Match, `cluster.spec.?paused.orValue(false)`, false},
		{expression.Step, `semver(request.toKubernetesVersion, true).compareTo(semver(request.fromKubernetesVersion, true)) > 0`, true},
		{expression.Step, `has(request.kubernetesVersion)`, false},
		{expression.Step, `request.hook == "BeforeClusterUpgrade"`, true},
		{expression.Step, `request.controlPlaneUpgrades.size() > 1 && request.controlPlaneUpgrades[1].version == "v1.37.0"`, true},
		{expression.Step, `request.workersUpgrades.exists(u, u.version == "v1.37.0")`, false},
		{expression.Wait, `objects.size() > 0 && request.workersUpgrades.size() == 0`, true},
		{expression.Step, `size(hosts) >= 3 && clusters.filter(c, c.metadata.name == cluster.metadata.name).size() == 1`, true},
		{expression.Step, `hosts.all(h, clusters.exists(c, c.metadata.name == h.metadata.name))`, false},
		{expression.Step, `quantity("2Gi").isGreaterThan(quantity("1Gi"))`, true},
		{expression.Wait, `objects.size() > 0 && objects.all(o, o.status.?readyReplicas.orValue(0) == o.spec.replicas)`, true},
	} {
		t.Run(c.expression, func(t *testing.T) {
			p, err := expression.Compile(c.expression, c.kind)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Eval(t.Context(), variables(t, 3))
			if err != nil || got != c.want {
				t.Errorf("got %t, %v", got, err)
			}
		})
	}
}

func TestErrorsHaveAPosition(t *testing.T) {
	for _, c := range []struct {
		kind             expression.Kind
		expression, want string
	}{
		{expression.Match, `cluster.spec ==`, "at character 16: Syntax error"},
		{expression.Step, `request.workersUpgrades.all(u, u.name == "")`, "undefined field 'name'"},
		{expression.Match, `hosts.size() > 0`, "at character 1: undeclared reference to 'hosts'"},
		{expression.Match, "cluster.spec.paused &&\n  hosts.size() > 0", "at line 2, character 3: undeclared reference to 'hosts'"},
		{expression.Step, `objects.size() > 0`, "undeclared reference to 'objects'"},
		{expression.Step, `request.toVersion == "v1"`, "at character 8: undefined field 'toVersion'"},
		{expression.Step, `"yes"`, "must be true or false, but is string"},
		{expression.Step, `hosts.all(a, hosts.all(b, hosts.all(c, a == b && b == c)))`, "loop over fewer lists"},
		{expression.Match, `cluster.a.all(x, cluster.b.all(y, cluster.c.all(z, x == y)))`, "loop over fewer lists"},
		{expression.Step, `cluster.metadata.name.matches("[")`, "at character 31"},
	} {
		t.Run(c.expression, func(t *testing.T) {
			_, err := expression.Compile(c.expression, c.kind)
			var fault *expression.Error
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestFaultsWhileEvaluating(t *testing.T) {
	for _, c := range []struct{ expression, want string }{
		{`cluster.spec.nothing == "x"`, "at character 13: no such key: nothing"},
		{`cluster.spec.topology.version`, "must be true or false, but is string"},
		{`cluster.spec.topology.version > 3`, "no such overload"},
	} {
		t.Run(c.expression, func(t *testing.T) {
			p, err := expression.Compile(c.expression, expression.Step)
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Eval(t.Context(), variables(t, 1))
			var fault *expression.Error
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestCostIsLimitedWhileRunning(t *testing.T) {
	p, err := expression.Compile(`cluster.items.all(i, i.metadata.name == "host")`, expression.Match)
	if err != nil {
		t.Fatal(err)
	}
	host := map[string]any{"metadata": map[string]any{"name": "host"}}
	for items, want := range map[int]error{100: nil, 50000: expression.ErrCost} {
		values := map[string]any{expression.ClusterVariable: map[string]any{"items": slices.Repeat([]any{host}, items)}}
		if _, err := p.Eval(t.Context(), values); !errors.Is(err, want) {
			t.Errorf("%d items: got %v, want %v", items, err, want)
		}
	}
}

func TestEvalStopsWithItsContext(t *testing.T) {
	p, err := expression.Compile(`hosts.all(a, a.metadata.name == "host")`, expression.Step)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Eval(ctx, variables(t, 1000)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestUses(t *testing.T) {
	p, err := expression.Compile(`hosts.exists(h, h.metadata.name == request.hook)`, expression.Step)
	if err != nil {
		t.Fatal(err)
	}
	for variable, want := range map[string]bool{
		expression.HostsVariable: true, expression.RequestVariable: true,
		expression.ClusterVariable: false, expression.ClustersVariable: false,
	} {
		if p.Uses(variable) != want {
			t.Errorf("Uses(%s) is %t", variable, !want)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`true`, `cluster.spec.topology.version == request.toKubernetesVersion`, `hosts.all(h, h.metadata.name != "")`,
		`objects.exists(o, o.status.?ready.orValue(false))`, `1/0 == 1`, `[1,2,3].map(x, x*x).sum() > 3`, `"a".matches("(")`,
		`duration("1h") > duration("1m")`, `hosts[5].metadata == null`, `-9223372036854775808 - 1 < 0`, "\x00", `cluster.?a.?b.hasValue()`,
	} {
		f.Add(seed)
	}
	values := variables(f, 3)
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range []expression.Kind{expression.Match, expression.Step, expression.Wait} {
			p, err := expression.Compile(text, kind)
			var fault *expression.Error
			if err != nil && !errors.As(err, &fault) {
				t.Fatalf("%q: the fault has no position: %v", text, err)
			}
			if err != nil {
				continue
			}
			if _, err := p.Eval(t.Context(), values); err != nil && !errors.As(err, &fault) {
				t.Fatalf("%q: the fault has no position: %v", text, err)
			}
		}
	})
}
