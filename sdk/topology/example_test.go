package topology_test

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/topology"
)

// A handler of ValidateTopology refuses what a Cluster makes of a template. It is registered with
// extension.Handle(server, capi.ValidateTopology, "few-files", validate).
func ExampleValidateTopology() {
	validate := topology.ValidateTopology(topology.Visit(
		clusterv1.PatchSelector{APIVersion: bootstrapv1.GroupVersion.String(), Kind: "KubeadmConfigTemplate"},
		func(_ context.Context, object *bootstrapv1.KubeadmConfigTemplate, _ topology.Template) error {
			if n := len(object.Spec.Template.Spec.Files); n > 1 {
				return fmt.Errorf("%d files; a machine may have one", n)
			}
			return nil
		}))

	template := &bootstrapv1.KubeadmConfigTemplate{}
	template.APIVersion, template.Kind = bootstrapv1.GroupVersion.String(), "KubeadmConfigTemplate"
	template.Spec.Template.Spec.Files = []bootstrapv1.File{{Path: "/etc/a"}, {Path: "/etc/b"}}
	raw, err := json.Marshal(template)
	if err != nil {
		panic(err)
	}
	_, err = validate(context.Background(), &hooksv1.ValidateTopologyRequest{Items: []*hooksv1.ValidateTopologyRequestItem{{
		HolderReference: hooksv1.HolderReference{Kind: "MachineDeployment", Namespace: "prod", Name: "workers"},
		Object:          runtime.RawExtension{Raw: raw},
	}}})
	fmt.Println(err)
	// Output: KubeadmConfigTemplate of MachineDeployment prod/workers: 2 files; a machine may have one
}
