package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
		at := slices.IndexFunc(request.Items, func(asked hooksv1.GeneratePatchesRequestItem) bool { return asked.UID == item.UID })
		if at < 0 {
			return failed("items[%d]: the request has no template with uid %q", i, item.UID)
		}
		template := &request.Items[at]
		if item.PatchType == hooksv1.JSONMergePatchType && len(item.Patch) == 0 {
			continue // of no change
		}
		fields := applied(template.HolderReference.Kind)
		if err := validPatch(item, fields); err != nil {
			return failed("items[%d]: %w", i, err)
		}
		// As Cluster API does, one patch goes onto what the ones before it made of the template.
		patched, err := apply(item, template.Object.Raw, fields)
		if err != nil {
			return failed("items[%d]: the patch of the template of %s %s: %w", i, template.HolderReference.Kind, template.HolderReference.FieldPath, err)
		}
		template.Object.Raw = patched
	}
	return outcome{}
}

// apply returns the template with a patch, by the library that Cluster API applies it with. It fails when the patch
// removes one of the fields, since Cluster API copies those that are there.
func apply(item hooksv1.GeneratePatchesResponseItem, template []byte, fields []string) ([]byte, error) {
	var patched []byte
	var err error
	if item.PatchType == hooksv1.JSONMergePatchType {
		patched, err = jsonpatch.MergePatch(template, item.Patch)
	} else {
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(item.Patch); err == nil {
			patched, err = patch.Apply(template)
		}
	}
	var before, after map[string]any
	if err = cmp.Or(err, json.Unmarshal(template, &before), json.Unmarshal(patched, &after)); err != nil {
		return nil, fmt.Errorf("it cannot be applied: %w", err)
	}
	for _, field := range fields {
		path := strings.Split(field, "/")
		_, was, _ := unstructured.NestedFieldNoCopy(before, path...)
		if _, is, _ := unstructured.NestedFieldNoCopy(after, path...); was && !is {
			return nil, fmt.Errorf("it removes %s, which Cluster API leaves as it is: remove what is in it", field)
		}
	}
	return patched, nil
}

// applied are the fields of a template that Cluster API takes from a patch. Of the templates of a Cluster and
// of its MachinePools it makes an object, of the others a template, with its metadata.
func applied(holder string) []string {
	if holder == "Cluster" || holder == "MachinePool" {
		return []string{"spec"}
	}
	return []string{"spec", "metadata/labels", "metadata/annotations"}
}

func validPatch(item hooksv1.GeneratePatchesResponseItem, fields []string) error {
	switch item.PatchType {
	case hooksv1.JSONMergePatchType:
		var patch map[string]any
		if err := json.Unmarshal(item.Patch, &patch); err != nil {
			return fmt.Errorf("no JSON merge patch: %w", err)
		}
		return mergeApplies(fields, "", patch)
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
			if err := applies(fields, strings.TrimPrefix(operation.Path, "/")); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("patchType is %q, want %s or %s", item.PatchType, hooksv1.JSONPatchType, hooksv1.JSONMergePatchType)
	}
	return nil
}

// mergeApplies is applies for all that a merge patch changes at a path.
func mergeApplies(fields []string, path string, patch map[string]any) error {
	for name, value := range patch {
		at := strings.TrimPrefix(path+"/"+name, "/")
		members, isObject := value.(map[string]any)
		leads := at == "metadata" || slices.ContainsFunc(fields, func(field string) bool { return strings.HasPrefix(field, at+"/") })
		err := applies(fields, at)
		if isObject && leads {
			err = mergeApplies(fields, at, members)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// applies says that Cluster API does not apply a change at the path.
func applies(fields []string, path string) error {
	for _, field := range fields {
		if path == field || strings.HasPrefix(path, field+"/") {
			return nil
		}
	}
	return fmt.Errorf("the patch changes %s: Cluster API applies only changes of %s to this template", path, strings.Join(fields, ", "))
}
