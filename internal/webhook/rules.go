package webhook

import (
	"context"
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"sigs.k8s.io/cluster-api/util/topology"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
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
	for i, preferred := range placement.Preferred {
		errs = append(errs, validation.ValidateLabelSelector(preferred.HostSelector, options, path.Child("preferred").Index(i).Child("hostSelector"))...)
	}
	return errs
}

// validateEndpoint checks an endpoint that is set; a controller's condition tells
// about one that is missing.
func validateEndpoint(spec infrav1.HostClusterSpec, path *field.Path) field.ErrorList {
	host := spec.ControlPlaneEndpoint.Host
	if host == "" || spec.Endpoint.Type == infrav1.EndpointExternal {
		return nil
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return field.ErrorList{field.Invalid(path.Child("controlPlaneEndpoint", "host"), host,
			"must be an IP address with endpoint type HostVIP; for a DNS name set spec.endpoint.type to External")}
	}
	return nil
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
