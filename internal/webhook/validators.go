package webhook

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var (
	specPath     = field.NewPath("spec")
	templatePath = field.NewPath("spec", "template", "spec")
)

// noDelete is embedded by every validator: nothing is checked on deletion.
type noDelete[T runtime.Object] struct{}

// ValidateDelete allows every deletion.
func (noDelete[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-slipway-dev-v1beta2-hostcluster,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.slipway.dev,resources=hostclusters,versions=v1beta2,name=validation.hostcluster.infrastructure.slipway.dev,sideEffects=None,admissionReviewVersions=v1

// HostCluster validates HostClusters.
type HostCluster struct{ noDelete[*infrav1.HostCluster] }

// ValidateCreate checks the endpoint.
func (HostCluster) ValidateCreate(_ context.Context, obj *infrav1.HostCluster) (admission.Warnings, error) {
	return nil, invalid("HostCluster", obj.Name, validateEndpoint(obj.Spec, specPath))
}

// ValidateUpdate checks the endpoint; that it doesn't change is checked in the CRD.
func (v HostCluster) ValidateUpdate(ctx context.Context, _, obj *infrav1.HostCluster) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, obj)
}

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-slipway-dev-v1beta2-hostclustertemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.slipway.dev,resources=hostclustertemplates,versions=v1beta2,name=validation.hostclustertemplate.infrastructure.slipway.dev,sideEffects=None,admissionReviewVersions=v1

// HostClusterTemplate validates HostClusterTemplates.
type HostClusterTemplate struct {
	noDelete[*infrav1.HostClusterTemplate]
}

// ValidateCreate checks the endpoint.
func (HostClusterTemplate) ValidateCreate(_ context.Context, obj *infrav1.HostClusterTemplate) (admission.Warnings, error) {
	return nil, invalid("HostClusterTemplate", obj.Name, validateEndpoint(obj.Spec.Template.Spec, templatePath))
}

// ValidateUpdate refuses changes.
func (HostClusterTemplate) ValidateUpdate(ctx context.Context, before, obj *infrav1.HostClusterTemplate) (admission.Warnings, error) {
	errs, err := validateImmutable(ctx, obj, before.Spec.Template.Spec, obj.Spec.Template.Spec)
	if err != nil {
		return nil, err
	}
	return nil, invalid("HostClusterTemplate", obj.Name, errs)
}

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-slipway-dev-v1beta2-hostmachine,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.slipway.dev,resources=hostmachines,versions=v1beta2,name=validation.hostmachine.infrastructure.slipway.dev,sideEffects=None,admissionReviewVersions=v1

// HostMachine validates HostMachines.
type HostMachine struct{ noDelete[*infrav1.HostMachine] }

// ValidateCreate checks the selectors, and who may ask for an adoption.
func (HostMachine) ValidateCreate(_ context.Context, obj *infrav1.HostMachine) (admission.Warnings, error) {
	return nil, invalid("HostMachine", obj.Name, append(validatePlacement(obj.Spec.Placement, specPath), validateAdoption(obj, specPath)...))
}

// ValidateUpdate checks the selectors; that the claim doesn't change is checked in
// the CRD.
func (v HostMachine) ValidateUpdate(ctx context.Context, _, obj *infrav1.HostMachine) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, obj)
}

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-slipway-dev-v1beta2-hostmachinetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.slipway.dev,resources=hostmachinetemplates,versions=v1beta2,name=validation.hostmachinetemplate.infrastructure.slipway.dev,sideEffects=None,admissionReviewVersions=v1

// HostMachineTemplate validates HostMachineTemplates.
type HostMachineTemplate struct {
	noDelete[*infrav1.HostMachineTemplate]
}

// ValidateCreate checks the selectors.
func (HostMachineTemplate) ValidateCreate(_ context.Context, obj *infrav1.HostMachineTemplate) (admission.Warnings, error) {
	return nil, invalid("HostMachineTemplate", obj.Name, validatePlacement(obj.Spec.Template.Spec.Placement, templatePath))
}

// ValidateUpdate refuses changes.
func (HostMachineTemplate) ValidateUpdate(ctx context.Context, before, obj *infrav1.HostMachineTemplate) (admission.Warnings, error) {
	errs, err := validateImmutable(ctx, obj, before.Spec.Template.Spec, obj.Spec.Template.Spec)
	if err != nil {
		return nil, err
	}
	return nil, invalid("HostMachineTemplate", obj.Name, append(errs, validatePlacement(obj.Spec.Template.Spec.Placement, templatePath)...))
}

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-slipway-dev-v1beta2-hostmachinepool,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.slipway.dev,resources=hostmachinepools,versions=v1beta2,name=validation.hostmachinepool.infrastructure.slipway.dev,sideEffects=None,admissionReviewVersions=v1

// HostMachinePool validates HostMachinePools.
type HostMachinePool struct {
	noDelete[*infrav1.HostMachinePool]
}

// ValidateCreate checks the selectors.
func (HostMachinePool) ValidateCreate(_ context.Context, obj *infrav1.HostMachinePool) (admission.Warnings, error) {
	return nil, invalid("HostMachinePool", obj.Name, validatePlacement(obj.Spec.Placement, specPath))
}

// ValidateUpdate checks the selectors.
func (v HostMachinePool) ValidateUpdate(ctx context.Context, _, obj *infrav1.HostMachinePool) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, obj)
}

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-slipway-dev-v1beta2-hostmachinepooltemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.slipway.dev,resources=hostmachinepooltemplates,versions=v1beta2,name=validation.hostmachinepooltemplate.infrastructure.slipway.dev,sideEffects=None,admissionReviewVersions=v1

// HostMachinePoolTemplate validates HostMachinePoolTemplates.
type HostMachinePoolTemplate struct {
	noDelete[*infrav1.HostMachinePoolTemplate]
}

// ValidateCreate checks the selectors.
func (HostMachinePoolTemplate) ValidateCreate(_ context.Context, obj *infrav1.HostMachinePoolTemplate) (admission.Warnings, error) {
	return nil, invalid("HostMachinePoolTemplate", obj.Name, validatePlacement(obj.Spec.Template.Spec.Placement, templatePath))
}

// ValidateUpdate refuses changes.
func (HostMachinePoolTemplate) ValidateUpdate(ctx context.Context, before, obj *infrav1.HostMachinePoolTemplate) (admission.Warnings, error) {
	errs, err := validateImmutable(ctx, obj, before.Spec.Template.Spec, obj.Spec.Template.Spec)
	if err != nil {
		return nil, err
	}
	return nil, invalid("HostMachinePoolTemplate", obj.Name, append(errs, validatePlacement(obj.Spec.Template.Spec.Placement, templatePath)...))
}
