package judge_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// One variable takes the networks of both families.
func TestTemplatesTakeBothFamilies(t *testing.T) {
	templates, err := filepath.Glob("../../../templates/cluster-template*.yaml")
	if err != nil || len(templates) < 5 {
		t.Fatal(templates, err)
	}
	for pods, want := range map[string][]string{
		"": {"10.244.0.0/16"}, `["fd00:10:244::/56"]`: {"fd00:10:244::/56"}, `["10.244.0.0/16","fd00:10:244::/56"]`: {"10.244.0.0/16", "fd00:10:244::/56"},
	} {
		for _, template := range templates {
			data, err := os.ReadFile(template)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := judge.Decode(data); err != nil {
				t.Errorf("%s is no YAML before its variables are replaced, so that kustomize and editors refuse it: %v", template, err)
			}
			given := map[string]string{"CLUSTER_NAME": "prod", "KUBERNETES_VERSION": "v1.36.3", "SLIPWAY_CONTROL_PLANE_ENDPOINT_HOST": "fd00:88::200"}
			if pods != "" {
				given["SLIPWAY_POD_CIDR"] = pods
			}
			text, err := judge.Substitute(data, given)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := judge.Decode(text)
			if err != nil {
				t.Fatalf("%s with %s: %v", template, pods, err)
			}
			cluster := objects[slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Cluster" })]
			if got, _, err := unstructured.NestedStringSlice(cluster.Object, "spec", "clusterNetwork", "pods", "cidrBlocks"); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s with %q: %v, %v", template, pods, got, err)
			}
		}
	}
}
