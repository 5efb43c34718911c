package main

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/conformance"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

func template(uid types.UID, apiVersion, kind string) hooksv1.GeneratePatchesRequestItem {
	return hooksv1.GeneratePatchesRequestItem{UID: uid, Object: runtime.RawExtension{Raw: []byte(`{"apiVersion":"` + apiVersion + `","kind":"` + kind + `"}`)}}
}

func TestPatches(t *testing.T) {
	ext := hooktest.Start(t, extension.Options{}, register)
	request := &hooksv1.GeneratePatchesRequest{Items: []hooksv1.GeneratePatchesRequestItem{
		template("a", "controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlaneTemplate"), template("b", "bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate"),
		template("c", "infrastructure.slipway.dev/v1beta2", "HostClusterTemplate"),
	}}
	if got := hooktest.Call(t, ext.Server, capi.GeneratePatches, "ntp-patches", request); len(got.Items) != 0 || got.Status != hooksv1.ResponseStatusSuccess {
		t.Errorf("without the variable: %+v", got)
	}
	request.Variables = []hooksv1.Variable{{Name: "ntpServers", Value: apiextensionsv1.JSON{Raw: []byte(`["ntp.example.com"]`)}}}
	got := hooktest.Call(t, ext.Server, capi.GeneratePatches, "ntp-patches", request)
	want := []string{
		`{"spec":{"template":{"spec":{"kubeadmConfigSpec":{"ntp":{"enabled":true,"servers":["ntp.example.com"]}}}}}}`,
		`{"spec":{"template":{"spec":{"ntp":{"enabled":true,"servers":["ntp.example.com"]}}}}}`,
	}
	if len(got.Items) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range want {
		if string(got.Items[i].Patch) != want[i] || got.Items[i].UID != request.Items[i].UID {
			t.Errorf("got %s for %s, want %s", got.Items[i].Patch, got.Items[i].UID, want[i])
		}
	}
	request.Variables[0].Value.Raw = []byte(`"ntp.example.com"`)
	if got := hooktest.Call(t, ext.Server, capi.GeneratePatches, "ntp-patches", request); got.Status != hooksv1.ResponseStatusFailure {
		t.Errorf("a variable of another type passes: %+v", got)
	}
}

func TestConformance(t *testing.T) {
	catalog := hook.NewCatalog()
	if err := capi.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	ext := hooktest.Start(t, extension.Options{}, register)
	hooktest.Conformance(t, conformance.Options{URL: ext.URL, CABundle: ext.CA.PEM, Catalog: catalog})
}
