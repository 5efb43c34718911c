package runtime

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// cluster is a Cluster with n machine deployments in its topology.
func cluster(n int) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "my-cluster", UID: "2f0c1f0e-6b52-4f0a-9d3c-6d8a4a1f2b10",
		Labels: map[string]string{"env": "test", "cluster.x-k8s.io/cluster-name": "my-cluster"},
	}}
	c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 6443}
	c.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.36.3"}
	for i := range 5 {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
			Type: fmt.Sprintf("Condition%d", i), Status: metav1.ConditionTrue, Reason: "Ready", Message: "everything is as it should be",
		})
	}
	for i := range n {
		c.Spec.Topology.Workers.MachineDeployments = append(c.Spec.Topology.Workers.MachineDeployments, clusterv1.MachineDeploymentTopology{
			Metadata: clusterv1.ObjectMeta{
				Labels:      map[string]string{"pool": fmt.Sprintf("pool-%d", i), "team": "platform"},
				Annotations: map[string]string{"example.com/owner": "platform team", "example.com/cost-centre": "4711"},
			},
			Class: "default-worker", Name: fmt.Sprintf("md-%d", i), Replicas: ptr.To(int32(3)), FailureDomain: "zone-a",
			Variables: clusterv1.MachineDeploymentVariables{Overrides: []clusterv1.ClusterVariable{
				{Name: "instanceType", Value: apiextensionsv1.JSON{Raw: []byte(`"m5.large"`)}},
				{Name: "disk", Value: apiextensionsv1.JSON{Raw: []byte(`{"sizeGiB":100,"type":"ssd"}`)}},
			}},
		})
	}
	return c
}

// patches is what a topology with n templates makes of the hook GeneratePatches.
func patches(n int) *hooksv1.GeneratePatchesRequest {
	r := &hooksv1.GeneratePatchesRequest{Variables: variables(15)}
	for i := range n {
		r.Items = append(r.Items, hooksv1.GeneratePatchesRequestItem{
			UID:             types.UID(fmt.Sprintf("item-%d", i)),
			HolderReference: hooksv1.HolderReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineDeployment", Namespace: "default", Name: fmt.Sprintf("md-%d", i), FieldPath: "spec.template.spec.infrastructureRef"},
			Object:          apiruntime.RawExtension{Raw: []byte(template(i))},
			Variables:       variables(5),
		})
	}
	return r
}

func variables(n int) []hooksv1.Variable {
	list := make([]hooksv1.Variable, n)
	for i := range list {
		list[i] = hooksv1.Variable{Name: fmt.Sprintf("variable%d", i), Value: apiextensionsv1.JSON{Raw: []byte(`{"enabled":true,"size":3}`)}}
	}
	return list
}

func template(i int) string {
	var fields []string
	for j := range 20 {
		fields = append(fields, fmt.Sprintf(`"field%02d":{"value":"%s","index":%d}`, j, strings.Repeat("y", 22), j))
	}
	return fmt.Sprintf(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"DockerMachineTemplate","metadata":{"name":"template-%d","namespace":"default"},"spec":{"template":{"spec":{%s}}}}`, i, strings.Join(fields, ","))
}

func size(t testing.TB, request any) int {
	t.Helper()
	data, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}
