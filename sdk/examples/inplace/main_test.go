package main

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/conformance"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

func start(t *testing.T) (*hooktest.Extension, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return hooktest.Start(t, extension.Options{}, func(s *extension.Server) error { return register(s, folder{root}) }), dir
}

func bootstrap(kind, ntp string) runtime.RawExtension {
	return runtime.RawExtension{Raw: []byte(`{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2","kind":"` + kind + `","spec":{` + ntp + `}}`)}
}

func TestCanUpdate(t *testing.T) {
	ext, _ := start(t)
	const a, b = `"ntp":{"servers":["a"]}`, `"ntp":{"servers":["b"]}`
	for name, tt := range map[string]struct {
		current, desired runtime.RawExtension
		want             string
	}{
		"other servers": {bootstrap("KubeadmConfig", a), bootstrap("KubeadmConfig", b), `{"spec":{"ntp":{"servers":["b"]}}}`},
		"none any more": {bootstrap("KubeadmConfig", a), bootstrap("KubeadmConfig", ""), `{"spec":{"ntp":null}}`},
		"the same":      {bootstrap("KubeadmConfig", a), bootstrap("KubeadmConfig", a), ""},
		"other kind":    {bootstrap("RKE2Config", a), bootstrap("RKE2Config", b), ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := &hooksv1.CanUpdateMachineRequest{}
			request.Current.BootstrapConfig, request.Desired.BootstrapConfig = tt.current, tt.desired
			got := hooktest.Call(t, ext.Server, capi.CanUpdateMachine, "ntp-can-update", request)
			if string(got.BootstrapConfigPatch.Patch) != tt.want || got.MachinePatch.IsDefined() || got.InfrastructureMachinePatch.IsDefined() {
				t.Errorf("got %s, want %s", got.BootstrapConfigPatch.Patch, tt.want)
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	ext, dir := start(t)
	request := &hooksv1.UpdateMachineRequest{}
	request.Desired.Machine.Namespace, request.Desired.Machine.Name = "team-a", "worker-1"
	request.Desired.BootstrapConfig = bootstrap("KubeadmConfig", `"ntp":{"servers":["b"]}`)
	for range 2 {
		if got := hooktest.Call(t, ext.Server, capi.UpdateMachine, "ntp-update", request); got.RetryAfterSeconds != 10 || got.Status != hooksv1.ResponseStatusSuccess {
			t.Fatalf("before the agent has done it: %+v", got)
		}
	}
	wanted, err := os.ReadFile(filepath.Join(dir, "team-a.worker-1.want"))
	if err != nil || string(wanted) != `{"servers":["b"]}` {
		t.Fatalf("the agent finds %s, %v", wanted, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "team-a.worker-1.done"), wanted, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := hooktest.Call(t, ext.Server, capi.UpdateMachine, "ntp-update", request); got.RetryAfterSeconds != 0 || got.Status != hooksv1.ResponseStatusSuccess {
		t.Errorf("after the agent has done it: %+v", got)
	}
	request.Desired.BootstrapConfig = bootstrap("KubeadmConfig", `"ntp":{"servers":["c"]}`)
	if got := hooktest.Call(t, ext.Server, capi.UpdateMachine, "ntp-update", request); got.RetryAfterSeconds != 10 {
		t.Errorf("what was done before counts for another change: %+v", got)
	}
}

// TestNamesStayInTheFolder lets a caller name a machine that is elsewhere.
func TestNamesStayInTheFolder(t *testing.T) {
	ext, dir := start(t)
	request := &hooksv1.UpdateMachineRequest{}
	request.Desired.Machine.Namespace, request.Desired.Machine.Name = "..", "/../escaped"
	if got := hooktest.Call(t, ext.Server, capi.UpdateMachine, "ntp-update", request); got.Status != hooksv1.ResponseStatusFailure {
		t.Errorf("got %+v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "..", "escaped.want")); err == nil {
		t.Error("a file was written outside of the folder")
	}
}

func TestConformance(t *testing.T) {
	catalog := hook.NewCatalog()
	if err := capi.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	ext, _ := start(t)
	hooktest.Conformance(t, conformance.Options{URL: ext.URL, CABundle: ext.CA.PEM, Catalog: catalog})
}
