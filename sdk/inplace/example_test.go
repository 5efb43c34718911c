package inplace_test

import (
	"context"
	"fmt"
	"log"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/inplace"
)

// One extension of two updaters: first the packages of the operating system, then the
// version of Kubernetes, which may need them.
func ExampleHandle() {
	server, err := extension.New(extension.Options{CertFile: "tls.crt", KeyFile: "tls.key"})
	if err == nil {
		err = inplace.Handle(server, "machines", inplace.Chain{
			{Name: "packages", CanUpdateMachine: canChangePackages, UpdateMachine: changePackages},
			{Name: "kubernetes", CanUpdateMachine: canUpgrade, UpdateMachine: upgrade},
		})
	}
	if err == nil {
		err = server.Run(context.Background())
	}
	log.Print(err)
}

// The answer has what both can change, as one patch of the Machine.
func ExampleChain_CanUpdateMachine() {
	chain := inplace.Chain{
		{Name: "packages", CanUpdateMachine: canChangePackages, UpdateMachine: changePackages},
		{Name: "kubernetes", CanUpdateMachine: canUpgrade, UpdateMachine: upgrade},
	}
	request := &hooksv1.CanUpdateMachineRequest{}
	request.Current.Machine.Spec = clusterv1.MachineSpec{ClusterName: "prod", Version: "v1.35.4"}
	request.Desired.Machine.Spec = clusterv1.MachineSpec{ClusterName: "prod", Version: "v1.36.3"}
	response, err := chain.CanUpdateMachine(context.Background(), request)
	fmt.Println(string(response.MachinePatch.Patch), err)
	// Output: {"spec":{"version":"v1.36.3"}} <nil>
}

func canChangePackages(context.Context, *hooksv1.CanUpdateMachineRequest) (*hooksv1.CanUpdateMachineResponse, error) {
	return nil, nil
}

func changePackages(context.Context, *hooksv1.UpdateMachineRequest) (*hooksv1.UpdateMachineResponse, error) {
	return nil, nil
}

func canUpgrade(_ context.Context, r *hooksv1.CanUpdateMachineRequest) (*hooksv1.CanUpdateMachineResponse, error) {
	patch := fmt.Appendf(nil, `{"spec":{"version":%q}}`, r.Desired.Machine.Spec.Version)
	return &hooksv1.CanUpdateMachineResponse{MachinePatch: hooksv1.Patch{PatchType: hooksv1.JSONMergePatchType, Patch: patch}}, nil
}

func upgrade(context.Context, *hooksv1.UpdateMachineRequest) (*hooksv1.UpdateMachineResponse, error) {
	return nil, nil
}
