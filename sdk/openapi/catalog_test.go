package openapi_test

import (
	"testing"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/openapi"
)

// TestCatalogOfDocument holds that an upgrade check against a document finds what
// one against the catalog itself finds.
func TestCatalogOfDocument(t *testing.T) {
	catalog := hook.NewCatalog()
	if err := host.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	if err := capi.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	hooktest.Older(t, catalog, host.BeforeHostClaim, "v1alpha1")
	hooktest.Older(t, catalog, host.AfterHostRelease, "v1alpha1")
	data, err := openapi.ForCatalog(openapi.Info{Prefix: "/prefix"}, catalog).JSON()
	if err != nil {
		t.Fatal(err)
	}
	document, err := openapi.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := openapi.Catalog(document)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.All()) != len(catalog.All()) {
		t.Fatalf("%d hooks, want %d", len(got.All()), len(catalog.All()))
	}
	var uses []hook.Use
	for _, d := range catalog.All() {
		uses = append(uses, hook.Use{Handler: "h.ext", Hook: d.Name})
	}
	uses = append(uses, hook.Use{Handler: "h.ext", Hook: hook.GroupVersionHook{Group: "a", Version: "v1", Hook: "Unheard"}})
	found, want := hook.CheckUpgrade(got, "", uses), hook.CheckUpgrade(catalog, "", uses)
	if len(found) != len(want) || len(want) != 3 {
		t.Fatalf("found %v, want %v", found, want)
	}
	for i := range found {
		if found[i] != want[i] {
			t.Errorf("found %v, want %v", found[i], want[i])
		}
	}
}

func TestCatalogOfForeignDocument(t *testing.T) {
	for _, paths := range []map[string]openapi.PathItem{
		{"/a": {Post: &openapi.Operation{OperationID: "v1A"}}},
		{"/g/v1/a": {Post: &openapi.Operation{OperationID: "readPet"}}},
		{"/g/latest/a": {Post: &openapi.Operation{OperationID: "latestA"}}},
	} {
		if _, err := openapi.Catalog(&openapi.Document{Paths: paths}); err == nil {
			t.Errorf("accepted %v", paths)
		}
	}
	if c, err := openapi.Catalog(&openapi.Document{Paths: map[string]openapi.PathItem{"/x": {}}}); err != nil || len(c.All()) != 0 {
		t.Errorf("a path without POST: %v", err)
	}
}
