package inplace

import (
	"bytes"
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/runtime"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// applyTo changes a typed object. A field that its type does not have is refused: it would
// be lost, and the answer would promise what nobody asked for.
func applyTo[T any](object *T, field string, p hooksv1.Patch) error {
	if !p.IsDefined() {
		return nil
	}
	before, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	after, err := apply(before, p)
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	var changed T
	decoder := json.NewDecoder(bytes.NewReader(after))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&changed); err != nil {
		return fmt.Errorf("%s makes no valid object: %w", field, err)
	}
	*object = changed
	return nil
}

// applyToRaw changes an object of a type that only its provider knows.
func applyToRaw(object *runtime.RawExtension, field string, p hooksv1.Patch) error {
	if !p.IsDefined() {
		return nil
	}
	if len(object.Raw) == 0 {
		return fmt.Errorf("%s is for an object that the machine does not have", field)
	}
	after, err := apply(object.Raw, p)
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	object.Raw = after
	return nil
}

// apply understands the two types of patches that Cluster API does.
func apply(document []byte, p hooksv1.Patch) ([]byte, error) {
	switch p.PatchType {
	case hooksv1.JSONPatchType:
		patch, err := jsonpatch.DecodePatch(p.Patch)
		if err != nil {
			return nil, fmt.Errorf("is no JSON patch: %w", err)
		}
		return patch.Apply(document)
	case hooksv1.JSONMergePatchType:
		return jsonpatch.MergePatch(document, p.Patch)
	}
	return nil, fmt.Errorf("patchType %q is neither %s nor %s", p.PatchType, hooksv1.JSONPatchType, hooksv1.JSONMergePatchType)
}

// difference writes the patch from before to after, none when they are the same. Cluster API
// compares what it makes with what is wanted: a patch that says less than the updaters did,
// as merge patches do about null, promises less.
func difference(into *hooksv1.Patch, before, after any) error {
	from, err := json.Marshal(before)
	if err != nil {
		return err
	}
	to, err := json.Marshal(after)
	if err != nil {
		return err
	}
	if bytes.Equal(from, to) {
		return nil
	}
	patch, err := jsonpatch.CreateMergePatch(from, to)
	if err != nil {
		return fmt.Errorf("make one patch of all: %w", err)
	}
	if bytes.Equal(patch, []byte("{}")) {
		return nil
	}
	*into = hooksv1.Patch{PatchType: hooksv1.JSONMergePatchType, Patch: patch}
	return nil
}
