package runtime

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster/patches/inline"
	"sigs.k8s.io/cluster-api/exp/runtime/topologymutation"

	"github.com/slipway-dev/slipway/sdk/topology"
)

// patchRequests are the hand-made requests of the conformance checks: every kind of template and holder.
func patchRequests(t *testing.T) []*hooksv1.GeneratePatchesRequest {
	t.Helper()
	files, err := filepath.Glob("../../../sdk/conformance/requests/GeneratePatches*.json")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	var all []*hooksv1.GeneratePatchesRequest
	for _, file := range files {
		data, err := os.ReadFile(file)
		r := &hooksv1.GeneratePatchesRequest{}
		if err == nil {
			err = json.Unmarshal(data, r)
		}
		if err != nil {
			t.Fatal(file, err)
		}
		all = append(all, r)
	}
	return all
}

// TestSelectorsAreThoseOfInlinePatches compares which templates package topology visits with which ones Cluster API's
// generator of inline patches does, for every kind of template, holder and class.
func TestSelectorsAreThoseOfInlinePatches(t *testing.T) {
	on, off := ptr.To(true), ptr.To(false)
	deployments := func(names ...string) clusterv1.PatchSelectorMatch {
		return clusterv1.PatchSelectorMatch{MachineDeploymentClass: &clusterv1.PatchSelectorMatchMachineDeploymentClass{Names: names}}
	}
	pools := func(names ...string) clusterv1.PatchSelectorMatch {
		return clusterv1.PatchSelectorMatch{MachinePoolClass: &clusterv1.PatchSelectorMatchMachinePoolClass{Names: names}}
	}
	matches := []clusterv1.PatchSelectorMatch{
		{ControlPlane: on}, {ControlPlane: off}, {InfrastructureCluster: on}, {InfrastructureCluster: off}, {ControlPlane: on, InfrastructureCluster: on},
		deployments(), deployments("*"), deployments("default-worker"), deployments("default-*"), deployments("*-worker"), deployments("*x*"), deployments("x", "default-worker"), deployments("worker"),
		pools(), pools("*"), pools("default-worker"), pools("default-*"), pools("*-worker"), pools("x"),
	}
	visited := 0
	for _, r := range patchRequests(t) {
		kinds := map[[2]string]bool{}
		for i := range r.Items {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(r.Items[i].Object.Raw); err != nil {
				t.Fatal(err)
			}
			r.Items[i].Object.Object = object
			kinds[[2]string{object.GetAPIVersion(), object.GetKind()}] = true
		}
		for kind := range kinds {
			for _, match := range matches {
				selector := clusterv1.PatchSelector{APIVersion: kind[0], Kind: kind[1], MatchResources: match}
				theirs, err := inline.NewGenerator(&clusterv1.ClusterClassPatch{Definitions: []clusterv1.PatchDefinition{{
					Selector: selector, JSONPatches: []clusterv1.JSONPatch{{Op: "add", Path: "/spec/template/spec/visited", Value: &apiextensionsv1.JSON{Raw: []byte("true")}}},
				}}}).Generate(t.Context(), nil, r)
				if err != nil {
					t.Fatal(err)
				}
				ours, err := topology.GeneratePatches(topology.Visit(selector, func(_ context.Context, object *map[string]any, _ topology.Template) error {
					return unstructured.SetNestedField(*object, true, "spec", "template", "spec", "visited")
				}))(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := uids(ours), uids(theirs); !reflect.DeepEqual(got, want) {
					t.Errorf("%s with %+v: visited %v, Cluster API %v", kind[1], match, got, want)
				}
				visited += len(ours.Items)
			}
		}
	}
	if visited < 20 {
		t.Errorf("only %d templates were visited", visited)
	}
}

func uids(r *hooksv1.GeneratePatchesResponse) []string {
	all := []string{}
	for _, item := range r.Items {
		all = append(all, string(item.UID))
	}
	return all
}

// TestPatchesMeanWhatUpstreamsDo changes templates by Cluster API's own helper and by package topology: both make the
// same objects, but for fields that the Go types do not have, which the helper of Cluster API removes.
func TestPatchesMeanWhatUpstreamsDo(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := bootstrapv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := controlplanev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	change := func(spec *bootstrapv1.KubeadmConfigSpec) {
		spec.NTP = bootstrapv1.NTP{Enabled: ptr.To(true), Servers: []string{"ntp.example.com"}}
		spec.Files = append(spec.Files, bootstrapv1.File{Path: "/etc/more", Content: "more"})
		spec.PreKubeadmCommands = nil
	}
	ours := topology.GeneratePatches(
		topology.Visit(clusterv1.PatchSelector{APIVersion: bootstrapv1.GroupVersion.String(), Kind: "KubeadmConfigTemplate"}, func(_ context.Context, o *bootstrapv1.KubeadmConfigTemplate, _ topology.Template) error {
			change(&o.Spec.Template.Spec)
			return nil
		}),
		topology.Visit(clusterv1.PatchSelector{APIVersion: controlplanev1.GroupVersion.String(), Kind: "KubeadmControlPlaneTemplate"}, func(_ context.Context, o *controlplanev1.KubeadmControlPlaneTemplate, _ topology.Template) error {
			change(&o.Spec.Template.Spec.KubeadmConfigSpec)
			return nil
		}))
	compared := 0
	for _, r := range patchRequests(t) {
		theirs := &hooksv1.GeneratePatchesResponse{}
		topologymutation.WalkTemplates(t.Context(), serializer.NewCodecFactory(scheme).UniversalDeserializer(), r, theirs,
			func(_ context.Context, object runtime.Object, _ map[string]apiextensionsv1.JSON, _ hooksv1.HolderReference) error {
				switch o := object.(type) {
				case *bootstrapv1.KubeadmConfigTemplate:
					change(&o.Spec.Template.Spec)
				case *controlplanev1.KubeadmControlPlaneTemplate:
					change(&o.Spec.Template.Spec.KubeadmConfigSpec)
				}
				return nil
			})
		answer, err := ours(t.Context(), r)
		if err != nil || theirs.Status != hooksv1.ResponseStatusSuccess || !reflect.DeepEqual(uids(answer), uids(theirs)) {
			t.Fatalf("%v; %+v; %v and %v", err, theirs.CommonResponse, uids(answer), uids(theirs))
		}
		for i, item := range answer.Items {
			if got, want := patched(t, r, item), patched(t, r, theirs.Items[i]); !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\ngot  %v\nwant %v", item.UID, got, want)
			}
			compared++
		}
	}
	if compared < 3 {
		t.Errorf("only %d templates were compared", compared)
	}
}

// patched is the spec of a template after a patch, as Cluster API applies it.
func patched(t *testing.T, r *hooksv1.GeneratePatchesRequest, item hooksv1.GeneratePatchesResponseItem) any {
	t.Helper()
	for _, template := range r.Items {
		if template.UID != item.UID {
			continue
		}
		after, err := jsonpatch.MergePatch(template.Object.Raw, item.Patch)
		if item.PatchType == hooksv1.JSONPatchType {
			var patch jsonpatch.Patch
			if patch, err = jsonpatch.DecodePatch(item.Patch); err == nil {
				after, err = patch.Apply(template.Object.Raw)
			}
		}
		var object map[string]any
		if err == nil {
			err = json.Unmarshal(after, &object)
		}
		if err != nil {
			t.Fatalf("%s: %v", item.Patch, err)
		}
		return object["spec"]
	}
	t.Fatalf("no template %s", item.UID)
	return nil
}
