package openapi

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// TestEverythingIsDescribed holds that whoever reads the document learns what each
// hook, type, field and parameter is.
func TestEverythingIsDescribed(t *testing.T) {
	d := ForCatalog(Info{Title: "hooks"}, allHooks(t))
	for path, item := range d.Paths {
		if item.Post.Summary == "" || item.Post.Description == "" || len(item.Post.Tags) == 0 {
			t.Errorf("%s has the summary %q, the description %q and the tags %q", path, item.Post.Summary, item.Post.Description, item.Post.Tags)
		}
		for _, parameter := range item.Post.Parameters {
			if parameter.Description == "" {
				t.Errorf("%s: parameter %s is not described", path, parameter.Name)
			}
		}
	}
	for name, s := range d.Components.Schemas {
		if s.Description == "" {
			t.Errorf("%s is not described", name)
		}
		for field, property := range s.Properties {
			if field == "metadata" && property.Ref != "" {
				continue // Kubernetes' own, which is described itself; upstream has no comment there
			}
			if property.Description == "" {
				t.Errorf("%s.%s is not described", name, field)
			}
			if strings.Contains(property.Description, "+optional") || strings.Contains(property.Description, "kubebuilder") {
				t.Errorf("%s.%s is described by markers: %s", name, field, property.Description)
			}
		}
	}
}

// TestRequestsAreNotDescribedByWhatTheyEmbed holds that a promoted SwaggerDoc says
// nothing of the type that has it.
func TestRequestsAreNotDescribedByWhatTheyEmbed(t *testing.T) {
	d := ForCatalog(Info{}, allHooks(t))
	got := d.Components.Schemas["io.k8s.sigs.cluster-api.api.runtime.hooks.v1alpha1.BeforeClusterCreateRequest"]
	if !strings.HasPrefix(got.Description, "BeforeClusterCreateRequest is the request") || !strings.HasPrefix(got.Properties["kind"].Description, "Kind is a string value") {
		t.Errorf("described as %q, its kind as %q", got.Description, got.Properties["kind"].Description)
	}
}

// TestEnumsAndDeprecation reads what comes from markers and from the paragraphs that
// begin with Deprecated.
func TestEnumsAndDeprecation(t *testing.T) {
	d := ForCatalog(Info{}, allHooks(t))
	const capi = "io.k8s.sigs.cluster-api.api."
	for field, want := range map[string][]string{
		capi + "runtime.hooks.v1alpha1.BeforeClusterCreateResponse status":    {"Success", "Failure"},                                                      // the constants of a type
		capi + "runtime.hooks.v1alpha1.GeneratePatchesResponseItem patchType": {"JSONPatch", "JSONMergePatch"},                                             // the marker of a type
		capi + "core.v1beta2.ClusterStatus phase":                             {"Pending", "Provisioning", "Provisioned", "Deleting", "Failed", "Unknown"}, // the marker of a field
		capi + "runtime.hooks.v1alpha1.BeforeClusterCreateResponse message":   nil,
	} {
		name, property, _ := strings.Cut(field, " ")
		s := d.Components.Schemas[name]
		if s == nil || s.Properties[property] == nil || !slices.Equal(s.Properties[property].Enum, want) {
			t.Errorf("%s: got %+v, want %q", field, s, want)
		}
	}
	deprecatedFields := 0
	for _, s := range d.Components.Schemas {
		for _, property := range s.Properties {
			if property.Deprecated {
				deprecatedFields++
			}
		}
	}
	if deprecatedFields == 0 {
		t.Error("Cluster API's types have deprecated fields, the document none")
	}
	for path, item := range d.Paths {
		older := strings.Contains(path, "hooks.infrastructure.slipway.dev/v1alpha1")
		if told := strings.Contains(item.Post.Description, "Deprecated since v0.1.0: move it to v1beta1."); told != older || item.Post.Deprecated != older {
			t.Errorf("%s: deprecated is %t, the description %q", path, item.Post.Deprecated, item.Post.Description)
		}
	}
}

// TestExamplesHaveTheirKind holds that an object of Cluster API in an example is of its own kind.
func TestExamplesHaveTheirKind(t *testing.T) {
	var request hooksv1.BeforeClusterCreateRequest
	if err := json.Unmarshal(exampleRequest(capi.BeforeClusterCreate.Definition()), &request); err != nil {
		t.Fatal(err)
	}
	if request.Cluster.Kind != "Cluster" || request.Cluster.APIVersion != "cluster.x-k8s.io/v1beta2" {
		t.Errorf("the example is about a %s of %s", request.Cluster.Kind, request.Cluster.APIVersion)
	}
}
