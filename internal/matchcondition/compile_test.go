package matchcondition_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/internal/matchcondition"
)

func TestCompile(t *testing.T) {
	tests := map[string]struct {
		expression string
		want       bool
		err        string
	}{
		"true":           {expression: `object.metadata.name.startsWith("gpu-")`, want: true},
		"false":          {expression: `object.metadata.namespace == "other"`},
		"label":          {expression: `object.metadata.labels["env"] == "prod"`, want: true},
		"missing field":  {expression: `object.spec.clusterNetwork.services == "x"`, err: "no such key"},
		"tested field":   {expression: `has(object.spec) && object.spec.paused`},
		"not a bool":     {expression: `object.metadata.name`, err: "not a bool"},
		"too expensive":  {expression: `[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, [1,2,3,4,5,6,7,8,9,10].all(g, true)))))))`, err: "cost limit"},
		"optional field": {expression: `object.?spec.?paused.orValue(false)`},
	}
	object := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "gpu-1", Labels: map[string]string{"env": "prod"}}}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			condition, err := matchcondition.Compile(tt.expression)
			if err != nil {
				t.Fatal(err)
			}
			got, err := condition(t.Context(), object)
			if got != tt.want || (err != nil) != (tt.err != "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("got %v, %v; want %v, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, expression := range []string{"", "object.", `"text"`, "1 + 1", "other == 1", strings.Repeat("(", 500)} {
		if _, err := matchcondition.Compile(expression); err == nil {
			t.Errorf("%q compiles", expression)
		}
	}
}
