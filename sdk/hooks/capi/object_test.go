package capi_test

import (
	"encoding/json"
	"testing"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// TestRequestsAreAboutObjects holds that each hook tells what its requests are about,
// the hooks about nothing in particular by name.
func TestRequestsAreAboutObjects(t *testing.T) {
	const body = `{
		"cluster": {"metadata": {"namespace": "team-a", "name": "demo"}},
		"desired": {"machine": {"metadata": {"namespace": "team-a", "name": "demo"}}, "machineSet": {"metadata": {"namespace": "team-a", "name": "demo"}}},
		"items": [{"holderReference": {"kind": "MachineDeployment", "name": "workers"}}, {"holderReference": {"kind": "Cluster", "namespace": "team-a", "name": "demo"}}]
	}`
	kinds := map[string]string{"Discovery": "", "DiscoverVariables": "", "CanUpdateMachine": "Machine", "CanUpdateMachineSet": "MachineSet", "UpdateMachine": "Machine"}
	catalog := hook.NewCatalog()
	if err := capi.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	for _, d := range catalog.All() {
		want := hook.ObjectReference{Kind: "Cluster", Namespace: "team-a", Name: "demo"}
		if kind, ok := kinds[d.Name.Hook]; ok && kind == "" {
			want = hook.ObjectReference{}
		} else if ok {
			want.Kind = kind
		}
		request := d.NewRequest()
		if got := d.ObjectOf(request); !got.IsZero() {
			t.Errorf("%s: an empty request is about %+v", d.Name.Hook, got)
		}
		if err := json.Unmarshal([]byte(body), request); err != nil {
			t.Fatal(err)
		}
		if got := d.ObjectOf(request); got != want {
			t.Errorf("%s: got %+v, want %+v", d.Name.Hook, got, want)
		}
	}
	if got := capi.BeforeClusterCreate.Definition().ObjectOf(nil); !got.IsZero() {
		t.Errorf("nothing is about %+v", got)
	}
}
