package inplace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// gateOfVersion is a kubeadm feature gate that KubeadmControlPlane sets by nothing but the
// version: for 1.31 to 1.35, see DefaultFeatureGates of Cluster API v1.14.2 in
// controlplane/kubeadm/pkg/desiredstate. kubeadm of 1.36 does not know it any more. It tells
// kubeadm how to write a file when it joins, and KubeadmControlPlane itself writes the ConfigMap
// that an upgrade reads.
const gateOfVersion = "ControlPlaneKubeletLocalMode"

var gatesOfKubeadm = []string{"spec", "clusterConfiguration", "featureGates"}

// followVersion returns the current KubeadmConfig with that gate as the desired one has it, and
// the patch that makes it so; undefined when it is the same. A gate that somebody switches on or
// off is not followed: no version does that.
func followVersion(current, desired []byte) ([]byte, hooksv1.Patch, error) {
	from, err := decode(current)
	if err != nil {
		return nil, hooksv1.Patch{}, fmt.Errorf("as it is: %w", err)
	}
	to, err := decode(desired)
	if err != nil {
		return nil, hooksv1.Patch{}, fmt.Errorf("as it shall be: %w", err)
	}
	gate := slices.Concat(gatesOfKubeadm, []string{gateOfVersion})
	wanted, there, err := unstructured.NestedFieldNoCopy(to, gate...)
	if err != nil {
		return nil, hooksv1.Patch{}, err
	}
	is, was, err := unstructured.NestedFieldNoCopy(from, gate...)
	if err != nil {
		return nil, hooksv1.Patch{}, err
	}
	switch {
	case is == true && !there:
		unstructured.RemoveNestedField(from, gate...)
		prune(from, to)
	case wanted == true && !was:
		if err := unstructured.SetNestedField(from, wanted, gate...); err != nil {
			return nil, hooksv1.Patch{}, err
		}
	}
	followed, err := json.Marshal(from)
	if err != nil {
		return nil, hooksv1.Patch{}, err
	}
	patch, err := jsonpatch.CreateMergePatch(current, followed)
	if err != nil || bytes.Equal(patch, []byte("{}")) {
		return followed, hooksv1.Patch{}, err
	}
	return followed, hooksv1.Patch{PatchType: hooksv1.JSONMergePatchType, Patch: patch}, nil
}

// prune takes away what is empty without the gate and not there in the desired one.
func prune(from, to map[string]any) {
	for n := len(gatesOfKubeadm); n > 1; n-- {
		path := gatesOfKubeadm[:n]
		left, _, err := unstructured.NestedMap(from, path...)
		if _, wanted, _ := unstructured.NestedFieldNoCopy(to, path...); err != nil || len(left) > 0 || wanted {
			return
		}
		unstructured.RemoveNestedField(from, path...)
	}
}

// decode reads an object. Numbers stay what they are, however large.
func decode(data []byte) (map[string]any, error) {
	if len(data) == 0 {
		return nil, errNone
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var content map[string]any
	if err := decoder.Decode(&content); err != nil {
		return nil, err
	}
	return content, nil
}
