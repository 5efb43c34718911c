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
// the request has not, or of fields that it does not apply.
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
		var patch map[string]any
		if err := json.Unmarshal(item.Patch, &patch); err != nil {
			return fmt.Errorf("no JSON merge patch: %w", err)
		}
		for field, value := range patch {
			members, ok := value.(map[string]any)
			if field != "metadata" || !ok {
				members = map[string]any{"": nil}
			}
			for member := range members {
				if err := applies(strings.TrimSuffix(field+"/"+member, "/")); err != nil {
					return err
				}
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
			if operation.Op == "test" {
				continue
			}
			if err := applies(strings.TrimPrefix(operation.Path, "/")); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("patchType is %q, want %s or %s", item.PatchType, hooksv1.JSONPatchType, hooksv1.JSONMergePatchType)
	}
	return nil
}

// applies says that Cluster API does not apply a change at the path.
func applies(path string) error {
	for _, applied := range []string{"spec", "metadata/labels", "metadata/annotations"} {
		if path == applied || strings.HasPrefix(path, applied+"/") {
			return nil
		}
	}
	return fmt.Errorf("the patch changes %s: Cluster API applies only changes of spec, metadata.labels and metadata.annotations", path)
}
