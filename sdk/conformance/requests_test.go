package conformance

import (
	"bytes"
	"encoding/json"
	"testing"
	"testing/fstest"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// TestRequestsAreOfTheirHooks holds that each hook of Cluster API has a hand-made request, and that no
// field of one is unknown.
func TestRequestsAreOfTheirHooks(t *testing.T) {
	c := hook.NewCatalog()
	if err := capi.AddToCatalog(c); err != nil {
		t.Fatal(err)
	}
	for _, d := range c.All() {
		if d.Name.Hook == "Discovery" {
			continue
		}
		requests, err := examples(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, request := range requests {
			if request.name == "example" {
				t.Errorf("%s has no hand-made request", d.Name.Hook)
			}
			decoder := json.NewDecoder(bytes.NewReader(request.body))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(d.NewRequest()); err != nil {
				t.Errorf("%s: %v", request.name, err)
			}
		}
	}
}

// TestPatchRequestHasAll holds that the requests for patches have every kind of template and holder
// of a topology.
func TestPatchRequestHasAll(t *testing.T) {
	requests, err := examples(capi.GeneratePatches.Definition(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		var request hooksv1.GeneratePatchesRequest
		if err := json.Unmarshal(r.body, &request); err != nil {
			t.Fatal(err)
		}
		held := map[string]bool{}
		for _, item := range request.Items {
			held[item.HolderReference.Kind+" "+item.HolderReference.FieldPath] = true
		}
		for _, want := range []string{
			"Cluster spec.infrastructureRef", "Cluster spec.controlPlaneRef", "KubeadmControlPlane spec.machineTemplate.spec.infrastructureRef",
			"MachineDeployment spec.template.spec.bootstrap.configRef", "MachineDeployment spec.template.spec.infrastructureRef",
			"MachinePool spec.template.spec.bootstrap.configRef", "MachinePool spec.template.spec.infrastructureRef",
		} {
			if !held[want] {
				t.Errorf("%s has no template of %s", r.name, want)
			}
		}
	}
}

// TestGivenRequests holds that requests of a user come behind the hand-made ones, those of another
// hook not.
func TestGivenRequests(t *testing.T) {
	given := fstest.MapFS{"CanUpdateMachine-mine.json": {Data: []byte("{}")}, "CanUpdateMachineSet.json": {Data: []byte("{}")}}
	requests, err := examples(capi.CanUpdateMachine.Definition(), given)
	if err != nil || len(requests) != 2 || requests[1].name != "CanUpdateMachine-mine" {
		t.Errorf("%v, %v", requests, err)
	}
}
