package runtime

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// The kinds that a ClusterClass needs, of a provider that does nothing: the test
// plays its controllers.
const (
	group      = "conformance.slipway.dev"
	apiVersion = group + "/v1beta2"

	infraKind        = "PlainCluster"
	controlPlaneKind = "PlainControlPlane"
	machineKind      = "PlainMachine"
	bootstrapKind    = "PlainConfig"
)

// manifests are the CRDs and the rights that core has to them.
func manifests() []*unstructured.Unstructured {
	objects := []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
		"metadata": map[string]any{"name": "plain-provider", "labels": map[string]any{"cluster.x-k8s.io/aggregate-to-manager": "true"}},
		"rules":    []any{map[string]any{"apiGroups": []any{group}, "resources": []any{"*"}, "verbs": []any{"*"}}},
	}}}
	for _, kind := range []string{infraKind, controlPlaneKind, machineKind, bootstrapKind} {
		objects = append(objects, crd(kind), crd(kind+"Template"))
	}
	return objects
}

func crd(kind string) *unstructured.Unstructured {
	plural := strings.ToLower(kind) + "s"
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name":   plural + "." + group,
			"labels": map[string]any{clusterv1.GroupVersion.String(): "v1beta2"},
		},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": plural, "singular": strings.ToLower(kind)},
			"versions": []any{map[string]any{
				"name": "v1beta2", "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}}
}

// template returns a template of kind with the spec of what is made of it.
func template(namespace, kind string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind + "Template",
		"metadata": map[string]any{"namespace": namespace, "name": strings.ToLower(kind)},
		"spec":     map[string]any{"template": map[string]any{"spec": spec}},
	}}
}

func templateRef(kind string) clusterv1.ClusterClassTemplateReference {
	return clusterv1.ClusterClassTemplateReference{APIVersion: apiVersion, Kind: kind + "Template", Name: strings.ToLower(kind)}
}
