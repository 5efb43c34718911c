package admission_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// TestGateOutlivesTheDeletionOfAll: whoever deletes a namespace, or all that is in it,
// does not get past what the deletion of a Cluster waits for, by having the gate deleted
// first.
func TestGateOutlivesTheDeletionOfAll(t *testing.T) {
	testenv.Skip(t)
	for name, c := range map[string]struct {
		policy  func(*lifecyclev1.LifecyclePolicy)
		cluster func(*clusterv1.Cluster)
		deleted bool
		// keepsPolicy and keepsNamespace say what must not be deleted.
		keepsPolicy, keepsNamespace bool
	}{
		"a gate":           {keepsPolicy: true, keepsNamespace: true},
		"a gate that asks": {deleted: true, keepsPolicy: true, keepsNamespace: true},
		"a gate that has passed": {deleted: true, cluster: func(c *clusterv1.Cluster) {
			c.Annotations = map[string]string{runtimev1.OkToDeleteAnnotation: ""}
		}},
		"of a selected Cluster": {policy: selecting("a"), cluster: labelled("a"), keepsPolicy: true, keepsNamespace: true},
		"of another Cluster":    {policy: selecting("a"), cluster: labelled("b")},
		"that cannot be known": {
			policy: func(p *lifecyclev1.LifecyclePolicy) {
				p.Spec.MatchCondition = `cluster.metadata.labels["nothing"] == "a"`
			},
			keepsPolicy: true, keepsNamespace: true,
		},
		"that only looks":         {policy: func(p *lifecyclev1.LifecyclePolicy) { p.Spec.Mode = lifecyclev1.ModeAudit }},
		"of another hook":         {policy: func(p *lifecyclev1.LifecyclePolicy) { p.Spec.Hooks[0].Hook = lifecyclev1.BeforeClusterUpgrade }},
		"that is never called":    {cluster: bare},
		"that admission calls":    {policy: all, cluster: bare, keepsPolicy: true, keepsNamespace: true},
		"that admission let pass": {policy: all, cluster: bare, deleted: true},
		"that is moved": {
			policy: func(p *lifecyclev1.LifecyclePolicy) {
				p.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
			},
			keepsNamespace: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := env.Namespace(t)
			policy := newPolicy(namespace, "keep", lifecyclev1.Step{Name: "ask", Approval: &lifecyclev1.ApprovalStep{}})
			policy.Spec.Hooks[0].Hook = lifecyclev1.BeforeClusterDelete
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prod", Finalizers: []string{"example.com/stay"}}}
			cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.36.3"}
			if c.policy != nil {
				c.policy(policy)
			}
			if c.cluster != nil {
				c.cluster(cluster)
			}
			if !cluster.Spec.Topology.IsDefined() {
				cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "example.com", Kind: "Plain", Name: "prod"}
			}
			for _, object := range []client.Object{cluster, policy} {
				if err := env.Client.Create(t.Context(), object); err != nil {
					t.Fatal(err)
				}
			}
			if c.deleted {
				if err := env.Client.Delete(t.Context(), cluster); err != nil {
					t.Fatal(err)
				}
			}
			expectKept(t, c.keepsNamespace, "delete cluster -n "+namespace+" prod",
				env.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, client.DryRunAll))
			expectKept(t, c.keepsPolicy, "set spec.mode to Audit", env.Client.Delete(t.Context(), policy, client.DryRunAll))
			expectKept(t, c.keepsPolicy, "set spec.mode to Audit",
				env.Client.DeleteAllOf(t.Context(), policy, client.InNamespace(namespace), client.DryRunAll))
		})
	}
}

func bare(c *clusterv1.Cluster)          { c.Spec.Topology = clusterv1.Topology{} }
func all(p *lifecyclev1.LifecyclePolicy) { p.Spec.Enforcement = lifecyclev1.EnforcementAll }

// expectKept fails unless a deletion was refused, with what to do, or was not.
func expectKept(t *testing.T, kept bool, remedy string, err error) {
	t.Helper()
	if !kept {
		if err != nil {
			t.Errorf("want it deleted: %v", err)
		}
		return
	}
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "Cluster prod") || !strings.Contains(err.Error(), remedy) {
		t.Errorf("got %v, want it forbidden and told what to do", err)
	}
}

func selecting(color string) func(*lifecyclev1.LifecyclePolicy) {
	return func(p *lifecyclev1.LifecyclePolicy) {
		p.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"color": color}}
	}
}

func labelled(color string) func(*clusterv1.Cluster) {
	return func(c *clusterv1.Cluster) { c.Labels = map[string]string{"color": color} }
}
