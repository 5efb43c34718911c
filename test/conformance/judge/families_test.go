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

// Cluster API gives up after ten seconds to delete a Node, and a host keeps its name: the Node would keep its
// next machine from joining. So in all templates it never gives up.
func TestTemplatesLeaveNoNode(t *testing.T) {
	files, err := filepath.Glob("../../../templates/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	found := 0
	for _, file := range append(files, "../../../templates/local/clusterclass.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := judge.Substitute(data, map[string]string{"CLUSTER_NAME": "prod", "KUBERNETES_VERSION": "v1.36.3", "SLIPWAY_CONTROL_PLANE_ENDPOINT_HOST": "10.0.0.9"})
		if err != nil {
			t.Fatal(err)
		}
		objects, err := judge.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			var machines []any
			spec, _, _ := unstructured.NestedMap(o.Object, "spec")
			switch o.GetKind() {
			case "KubeadmControlPlane":
				machine, _, _ := unstructured.NestedMap(spec, "machineTemplate", "spec")
				machines = []any{machine}
			case "MachineDeployment", "MachinePool":
				machine, _, _ := unstructured.NestedMap(spec, "template", "spec")
				machines = []any{machine}
			case "ClusterClass":
				deployments, _, _ := unstructured.NestedSlice(spec, "workers", "machineDeployments")
				pools, _, _ := unstructured.NestedSlice(spec, "workers", "machinePools")
				machines = slices.Concat([]any{spec["controlPlane"]}, deployments, pools)
			}
			for i, machine := range machines {
				found++
				timeout, set, err := unstructured.NestedFloat64(machine.(map[string]any), "deletion", "nodeDeletionTimeoutSeconds")
				if err != nil || !set || timeout != 0 {
					t.Errorf("%s, machine %d of %s: Nodes are deleted for %g s (set: %t), %v", file, i, o.GetKind(), timeout, set, err)
				}
			}
		}
	}
	if found != 14 {
		t.Errorf("%d kinds of machines were looked at", found)
	}
}
