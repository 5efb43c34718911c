package expression_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
)

func TestMatch(t *testing.T) {
	north := &metav1.LabelSelector{MatchLabels: map[string]string{"site": "north"}}
	south := &metav1.LabelSelector{MatchLabels: map[string]string{"site": "south"}}
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "site", Operator: "Near"}}}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "edge", Labels: north.MatchLabels}}
	matcher := &expression.Matcher{}
	for name, c := range map[string]struct {
		selector  *metav1.LabelSelector
		condition string
		want      expression.Mismatch
		err       string
	}{
		"all":               {},
		"selected":          {selector: north},
		"not selected":      {selector: south, want: expression.NotSelected},
		"condition true":    {selector: north, condition: `cluster.metadata.name == "edge"`},
		"condition false":   {selector: north, condition: `cluster.metadata.name == "core"`, want: expression.ConditionFalse},
		"selector first":    {selector: south, condition: "cluster.spec.nothing", want: expression.NotSelected},
		"condition fails":   {condition: "cluster.spec.nothing == 1", err: "LifecyclePolicy p: spec.matchCondition: "},
		"condition invalid": {condition: "cluster ==", err: "LifecyclePolicy p: spec.matchCondition: "},
		"selector invalid":  {selector: broken, err: "LifecyclePolicy p: spec.clusterSelector: "},
	} {
		t.Run(name, func(t *testing.T) {
			policy := &lifecyclev1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
			policy.Spec.ClusterSelector, policy.Spec.MatchCondition = c.selector, c.condition
			for range 2 { // the second time from the compiled condition
				got, err := matcher.Match(t.Context(), policy, cluster)
				if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
					t.Errorf("got %q, %v; want %q, %q", got, err, c.want, c.err)
				}
			}
		})
	}
}
