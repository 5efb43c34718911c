package webhook

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/topology"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

func invalid(kind, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(infrav1.GroupVersion.WithKind(kind).GroupKind(), name, errs)
}

func validatePlacement(placement infrav1.Placement, path *field.Path) field.ErrorList {
	options := validation.LabelSelectorValidationOptions{}
	errs := validation.ValidateLabelSelector(placement.HostSelector, options, path.Child("hostSelector"))
	for name, quantity := range placement.MinCapacity {
		if quantity.Sign() <= 0 {
			errs = append(errs, field.Invalid(path.Child("minCapacity").Key(string(name)), quantity.String(), "must be more than 0: leave it out if any host has enough"))
		}
	}
	for i, preferred := range placement.Preferred {
		errs = append(errs, validation.ValidateLabelSelector(preferred.HostSelector, options, path.Child("preferred").Index(i).Child("hostSelector"))...)
	}
	return errs
}

// validateAdoption refuses an adoption by a machine that others make and replace, and
// one beside a choice of hosts, which would be ignored.
func validateAdoption(m *infrav1.HostMachine, path *field.Path) field.ErrorList {
	spec := m.Spec
	if spec.Adopt.HostName == "" {
		return nil
	}
	_, pooled := m.Labels[clusterv1.MachinePoolNameLabel]
	pooled = pooled || host.PoolOf(m) != nil
	_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
	var errs field.ErrorList
	if pooled {
		errs = append(errs, field.Forbidden(path.Child("adopt"), "a member of a pool takes any host that fits: adopt the node by a Machine of its own"))
	}
	if controlPlane {
		errs = append(errs, field.Forbidden(path.Child("adopt"), "only workers are adopted: take the label "+clusterv1.MachineControlPlaneLabel+" off, or replace the control-plane node"))
	}
	chosen := map[string]bool{
		"hostName": spec.HostName != "", "hostSelector": spec.HostSelector != nil, "minCapacity": len(spec.MinCapacity) > 0, "preferred": len(spec.Preferred) > 0, "spread": spec.Spread != nil,
	}
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		if chosen[name] {
			errs = append(errs, field.Forbidden(path.Child(name), "must not be set with "+path.Child("adopt").String()+", which names the host: remove one of them"))
		}
	}
	return errs
}

// validateEndpoint checks an endpoint that is set; a controller's condition tells
// about one that is missing.
func validateEndpoint(spec infrav1.HostClusterSpec, path *field.Path) field.ErrorList {
	endpoint, path := spec.ControlPlaneEndpoint, path.Child("controlPlaneEndpoint")
	if spec.Endpoint.Type == infrav1.EndpointExternal {
		return nil
	}
	var errs field.ErrorList
	if _, err := netip.ParseAddr(endpoint.Host); err != nil && endpoint.Host != "" {
		errs = append(errs, field.Invalid(path.Child("host"), endpoint.Host,
			"must be an IP address with endpoint type HostVIP; for a DNS name set spec.endpoint.type to External"))
	}
	if why := host.RefusePort(endpoint.Port); why != "" {
		errs = append(errs, field.Invalid(path.Child("port"), endpoint.Port, why))
	}
	return errs
}

// validateImmutable refuses a change of a template. Cluster API rotates templates
// instead of changing them; only the dry run by which its topology controller
// finds out what would change must pass.
func validateImmutable(ctx context.Context, obj metav1.Object, before, after any) (field.ErrorList, error) {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected an admission request in the context: %v", err))
	}
	if topology.IsDryRunRequest(request, obj) || equality.Semantic.DeepEqual(before, after) {
		return nil, nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "template", "spec"),
		"cannot be changed: make a template with another name and refer to that")}, nil
}
