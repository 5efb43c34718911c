package conversion

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/slipway-dev/slipway/api/v1beta1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// The converters, by kind, for a webhook builder's WithConverter.
var (
	Host                    = conversion.NewHubSpokeConverter(&infrav1.Host{}, conversion.NewSpokeConverter(&v1beta1.Host{}, hostToV1Beta1, hostToHub))
	HostCluster             = conversion.NewHubSpokeConverter(&infrav1.HostCluster{}, conversion.NewSpokeConverter(&v1beta1.HostCluster{}, hostClusterToV1Beta1, hostClusterToHub))
	HostClusterTemplate     = conversion.NewHubSpokeConverter(&infrav1.HostClusterTemplate{}, conversion.NewSpokeConverter(&v1beta1.HostClusterTemplate{}, hostClusterTemplateToV1Beta1, hostClusterTemplateToHub))
	HostMachine             = conversion.NewHubSpokeConverter(&infrav1.HostMachine{}, conversion.NewSpokeConverter(&v1beta1.HostMachine{}, hostMachineToV1Beta1, hostMachineToHub))
	HostMachineTemplate     = conversion.NewHubSpokeConverter(&infrav1.HostMachineTemplate{}, conversion.NewSpokeConverter(&v1beta1.HostMachineTemplate{}, hostMachineTemplateToV1Beta1, hostMachineTemplateToHub))
	HostMachinePool         = conversion.NewHubSpokeConverter(&infrav1.HostMachinePool{}, conversion.NewSpokeConverter(&v1beta1.HostMachinePool{}, hostMachinePoolToV1Beta1, hostMachinePoolToHub))
	HostMachinePoolTemplate = conversion.NewHubSpokeConverter(&infrav1.HostMachinePoolTemplate{}, conversion.NewSpokeConverter(&v1beta1.HostMachinePoolTemplate{}, hostMachinePoolTemplateToV1Beta1, hostMachinePoolTemplateToHub))
)

// The kinds below are made of the same types in both versions.

func hostToV1Beta1(_ context.Context, src *infrav1.Host, dst *v1beta1.Host) error {
	dst.ObjectMeta, dst.Spec, dst.Status = src.ObjectMeta, src.Spec, src.Status
	return nil
}

func hostToHub(_ context.Context, src *v1beta1.Host, dst *infrav1.Host) error {
	dst.ObjectMeta, dst.Spec, dst.Status = src.ObjectMeta, src.Spec, src.Status
	return nil
}

func hostMachineTemplateToV1Beta1(_ context.Context, src *infrav1.HostMachineTemplate, dst *v1beta1.HostMachineTemplate) error {
	dst.ObjectMeta, dst.Spec, dst.Status = src.ObjectMeta, src.Spec, src.Status
	return nil
}

func hostMachineTemplateToHub(_ context.Context, src *v1beta1.HostMachineTemplate, dst *infrav1.HostMachineTemplate) error {
	dst.ObjectMeta, dst.Spec, dst.Status = src.ObjectMeta, src.Spec, src.Status
	return nil
}

func hostMachinePoolTemplateToV1Beta1(_ context.Context, src *infrav1.HostMachinePoolTemplate, dst *v1beta1.HostMachinePoolTemplate) error {
	dst.ObjectMeta, dst.Spec = src.ObjectMeta, src.Spec
	return nil
}

func hostMachinePoolTemplateToHub(_ context.Context, src *v1beta1.HostMachinePoolTemplate, dst *infrav1.HostMachinePoolTemplate) error {
	dst.ObjectMeta, dst.Spec = src.ObjectMeta, src.Spec
	return nil
}
