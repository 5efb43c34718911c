package openapi_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/sdk/openapi"
)

// TestDiff finds what a document adds and deprecates besides what it breaks.
func TestDiff(t *testing.T) {
	const (
		path      = "/hooks.infrastructure.slipway.dev/v1beta1/"
		removed   = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclusterdelete/{name}"
		component = "com.github.slipway-dev.slipway.sdk.hooks.host.v1beta1."
	)
	old, current := document(t), document(t)
	data, err := json.Marshal(openapi.Diff(old, current))
	if err != nil || string(data) != `{"breaking":[],"additions":[],"deprecations":[]}` {
		t.Errorf("nothing has changed: %s, %v", data, err)
	}
	host := current.Components.Schemas[component+"Host"]
	delete(host.Properties, "labels")
	host.Properties["zone"] = &openapi.Schema{Type: "string"}
	host.Properties["name"].Deprecated = true
	delete(old.Paths, path+"afterhostrelease/{name}")
	delete(current.Paths, removed)
	operation := current.Paths[path+"beforehostclaim/{name}"].Post
	operation.Deprecated, operation.Lifecycle.Replacement = true, "v1"
	got := openapi.Diff(old, current)
	for kind, lists := range map[string][2][]string{
		"breaking": {got.Breaking, {
			path + "beforehostclaim/{name} request.host.labels: the field was removed",
			removed + ": the hook version was removed",
		}},
		"additions": {got.Additions, {
			path + "afterhostrelease/{name}: the hook version was added",
			path + "beforehostclaim/{name} request.host.zone: the field was added",
		}},
		"deprecations": {got.Deprecations, {
			path + "beforehostclaim/{name} request.host.name: the field was deprecated",
			path + "beforehostclaim/{name}: the hook version was deprecated; move to v1",
		}},
	} {
		if !slices.Equal(lists[0], lists[1]) {
			t.Errorf("%s: got %q, want %q", kind, lists[0], lists[1])
		}
	}
}
