package link

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var now = metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))

func address(a string) clusterv1.MachineAddress {
	return clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: a}
}

// refusing is an API server that takes no status with a certain part.
type refusing struct {
	refuses part
	with    error
	stored  *infrav1.HostStatus
}

func (s *refusing) ApplyHostStatus(_ context.Context, h *infrav1.Host) error {
	if s.refuses.clear != nil {
		without := h.Status.DeepCopy()
		s.refuses.clear(without)
		if !same(without, &h.Status) {
			return s.with
		}
	}
	s.stored = h.Status.DeepCopy()
	return nil
}

// refusals are the ways in which an API server refuses a field.
func refusals(at string) map[string]error {
	kind := schema.GroupKind{Group: infrav1.GroupVersion.Group, Kind: "Host"}
	return map[string]error{
		"invalid":       apierrors.NewInvalid(kind, "h", field.ErrorList{field.Invalid(field.NewPath(at+"[3].name"), "x", "too long")}),
		"unknown":       apierrors.NewInternalError(errors.New("failed to create typed patch object (ns/h; infrastructure.slipway.dev/v1beta2, Kind=Host): ." + at + ": field not declared in schema")),
		"names no part": apierrors.NewInvalid(kind, "h", nil),
		"denied": apierrors.NewForbidden(schema.GroupResource{Resource: "hosts"}, "h",
			errors.New("ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no")),
		"too large": apierrors.NewGenericServerResponse(http.StatusRequestEntityTooLarge, "patch", schema.GroupResource{Resource: "hosts"}, "h", "", 0, true),
	}
}
