package cel_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/registry"
	"github.com/slipway-dev/slipway/sdk/registry/cel"
)

func cluster() *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", Labels: map[string]string{"env": "prod"}}}
	c.Spec.Topology.Version = "v1.36.3"
	return c
}

func TestConditions(t *testing.T) {
	tests := map[string]struct {
		expression string
		want       bool
		fails      string
	}{
		"label":          {`object.metadata.labels["env"] == "prod"`, true, ""},
		"missing label":  {`object.metadata.labels["team"] == "a"`, false, "no such key"},
		"optional label": {`object.metadata.labels[?"team"].orValue("") == "a"`, false, ""},
		"spec":           {`object.spec.topology.version.startsWith("v1.36.")`, true, ""},
		"no bool":        {`object.metadata.name`, false, "want a bool"},
		"costs too much": {`[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d,
			[0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, a + b + c + d + e + f >= 0 && object.metadata.name != ""))))))`, false, "cost limit"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			condition, err := cel.Compile(tt.expression)
			if err != nil {
				t.Fatal(err)
			}
			got, err := condition(t.Context(), cluster())
			if got != tt.want || tt.fails == "" && err != nil || tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
				t.Errorf("got %t, %v, want %t and an error with %q", got, err, tt.want, tt.fails)
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	for name, expression := range map[string]string{
		"nothing": "", "a string": `"yes"`, "an unknown variable": `cluster.metadata.name == "c"`,
		"half an expression": `object.metadata.`, "too long": `object.metadata.name == "` + strings.Repeat("x", 5000) + `"`,
	} {
		if _, err := cel.Compile(expression); err == nil {
			t.Errorf("%s was compiled", name)
		}
	}
}

func TestEndOfContext(t *testing.T) {
	condition, err := cel.Compile(`[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, object.metadata.name != string(a + b + c))))`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := condition(ctx, cluster()); err == nil {
		t.Error("the evaluation went on after its context")
	}
}

func TestUnstructured(t *testing.T) {
	condition, err := cel.Compile(`object.spec.size > 3`)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(4)}}}
	if match, err := condition(t.Context(), object); !match || err != nil {
		t.Errorf("got %t, %v", match, err)
	}
}

// TestRegistryUsesConditions proves that a condition narrows the objects, and that
// one that fails closes the door.
func TestRegistryUsesConditions(t *testing.T) {
	config := hooktest.Handler(hooktest.Config("ext", "https://ext.example.com", nil), capi.BeforeClusterCreate, "h", "", 0)
	config.Annotations = map[string]string{registry.MatchConditionAnnotation: `object.metadata.labels["env"] == "prod"`}
	r := registry.New(registry.Options{CompileCondition: cel.Compile})
	if err := r.WarmUp(hooktest.Entry(t, config)); err != nil {
		t.Fatal(err)
	}
	name := capi.BeforeClusterCreate.Definition().Name.GroupHook()
	matching, other, unlabelled := cluster(), cluster(), cluster()
	other.Labels["env"] = "test"
	unlabelled.Labels = nil
	if list, err := r.Match(t.Context(), name, matching); err != nil || len(list) != 1 {
		t.Errorf("a matching object: %d handlers, %v", len(list), err)
	}
	if list, err := r.Match(t.Context(), name, other); err != nil || len(list) != 0 {
		t.Errorf("another object: %d handlers, %v", len(list), err)
	}
	if _, err := r.Match(t.Context(), name, unlabelled); err == nil {
		t.Error("a condition that fails did not fail the call")
	}
	config.Annotations[registry.MatchConditionAnnotation] = "1 +"
	if err := r.Set(hooktest.Entry(t, config)); err == nil || !strings.Contains(err.Error(), "match condition") {
		t.Errorf("got %v, want an error that names the condition", err)
	}
}
