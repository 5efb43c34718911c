package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// validPatches finds patches that Cluster API refuses or passes over: of templates that
// the request has not, or of anything but their spec.
func validPatches(_ context.Context, h *handler) outcome {
	request, response := &hooksv1.GeneratePatchesRequest{}, &hooksv1.GeneratePatchesResponse{}
	if err := json.Unmarshal(h.request, request); err != nil {
		return outcome{err: err}
	}
	if err := json.Unmarshal(h.answer, response); err != nil {
		return outcome{err: err}
	}
	for i, item := range response.Items {
		if !slices.ContainsFunc(request.Items, func(asked hooksv1.GeneratePatchesRequestItem) bool { return asked.UID == item.UID }) {
			return failed("items[%d]: the request has no template with uid %q", i, item.UID)
		}
		if err := validPatch(item); err != nil {
			return failed("items[%d]: %w", i, err)
		}
	}
	return outcome{}
}

func validPatch(item hooksv1.GeneratePatchesResponseItem) error {
	switch item.PatchType {
	case hooksv1.JSONMergePatchType:
		var patch map[string]json.RawMessage
		if err := json.Unmarshal(item.Patch, &patch); err != nil {
			return fmt.Errorf("no JSON merge patch: %w", err)
		}
		for field := range patch {
			if field != "spec" {
				return fmt.Errorf("the patch changes %s: Cluster API takes over changes of spec alone", field)
			}
		}
	case hooksv1.JSONPatchType:
		var patch []struct {
			Op, Path string
		}
		if err := json.Unmarshal(item.Patch, &patch); err != nil {
			return fmt.Errorf("no JSON patch: %w", err)
		}
		for _, operation := range patch {
			if operation.Op != "test" && operation.Path != "/spec" && !strings.HasPrefix(operation.Path, "/spec/") {
				return fmt.Errorf("the patch changes %s: Cluster API takes over changes of spec alone", operation.Path)
			}
		}
	default:
		return fmt.Errorf("patchType is %q, want %s or %s", item.PatchType, hooksv1.JSONPatchType, hooksv1.JSONMergePatchType)
	}
	return nil
}
