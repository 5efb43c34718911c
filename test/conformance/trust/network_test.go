package trust

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// hookPort is the name of the port where the lifecycle engine answers hooks.
const hookPort = "extension"

// TestNetworkPolicy holds that of all pods only those in the namespace of Cluster API's core
// provider, as clusterctl labels it, reach the port of hooks of a release.
func TestNetworkPolicy(t *testing.T) {
	level.Deep(t)
	policy, pod := released(t)
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		t.Fatal(err)
	}
	if policy.Namespace != "slipway-lifecycle-system" || !selector.Matches(labels.Set(pod.Labels)) || !slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
		t.Errorf("it is not about the engine's pods: %+v", policy.Spec)
	}
	core := metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.ProviderNameLabel: "cluster-api"}}
	opened := false
	for i, rule := range policy.Spec.Ingress {
		if len(rule.Ports) == 0 {
			t.Errorf("rule %d opens every port", i)
		}
		for _, port := range rule.Ports {
			if port.Port == nil || port.Port.StrVal == "" || port.EndPort != nil {
				t.Errorf("rule %d opens %v: name the port of the container", i, port)
				continue
			}
			if !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == port.Port.StrVal }) {
				t.Errorf("rule %d opens %s, which the container does not have", i, port.Port.StrVal)
			}
			if port.Port.StrVal != hookPort {
				continue
			}
			opened = true
			if len(rule.From) != 1 || rule.From[0].IPBlock != nil || rule.From[0].NamespaceSelector == nil ||
				metav1.FormatLabelSelector(rule.From[0].NamespaceSelector) != metav1.FormatLabelSelector(&core) {
				t.Errorf("hooks are open for %+v", rule.From)
			}
		}
	}
	if !opened {
		t.Error("core reaches no hook")
	}
}

// released are the only NetworkPolicy of the lifecycle engine's manifests, and its pods.
func released(t *testing.T) (*networkingv1.NetworkPolicy, corev1.PodTemplateSpec) {
	t.Helper()
	objects, err := judge.NewKit().Render(t.Context(), module, "config/lifecycle/default")
	if err != nil {
		t.Fatal(err)
	}
	var policies []networkingv1.NetworkPolicy
	var deployments []appsv1.Deployment
	for _, object := range objects {
		var into any
		switch object.GetKind() {
		case "NetworkPolicy":
			policies = append(policies, networkingv1.NetworkPolicy{})
			into = &policies[len(policies)-1]
		case "Deployment":
			deployments = append(deployments, appsv1.Deployment{})
			into = &deployments[len(deployments)-1]
		default:
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
			t.Fatal(err)
		}
	}
	if len(policies) != 1 || len(deployments) != 1 {
		t.Fatalf("%d NetworkPolicies and %d Deployments", len(policies), len(deployments))
	}
	return &policies[0], deployments[0].Spec.Template
}
