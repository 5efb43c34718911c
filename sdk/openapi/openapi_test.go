package openapi_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/openapi"
)

var publish = flag.Bool("publish", false, "write the published document; only for a release or a new hook version")

const published = "testdata/hooks.json"

func document(t testing.TB) *openapi.Document {
	t.Helper()
	c := hook.NewCatalog()
	if err := errors.Join(capi.AddToCatalog(c), host.AddToCatalog(c)); err != nil {
		t.Fatal(err)
	}
	return openapi.ForCatalog(openapi.Info{Title: "Runtime hooks"}, c)
}

// TestRule1 is the gate for rule #1: what was published is not taken away.
func TestRule1(t *testing.T) {
	current, err := document(t).JSON()
	if err != nil {
		t.Fatal(err)
	}
	if *publish {
		if err := os.WriteFile(published, current, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	old, err := openapi.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if changes := openapi.Diff(old, document(t)).Breaking; len(changes) > 0 {
		t.Errorf("these changes need a new version of the hook:\n%s", strings.Join(changes, "\n"))
	}
}

func TestCompareFindsWhatBreaks(t *testing.T) {
	const path = "/hooks.infrastructure.slipway.dev/v1beta1/beforehostclaim/{name}"
	const component = "com.github.slipway-dev.slipway.sdk.hooks.host.v1beta1."
	tests := map[string]struct {
		change func(*openapi.Document)
		want   string
	}{
		"hook removed":     {func(d *openapi.Document) { delete(d.Paths, path) }, "version was removed"},
		"field removed":    {func(d *openapi.Document) { delete(d.Components.Schemas[component+"Host"].Properties, "labels") }, "field was removed"},
		"type changed":     {func(d *openapi.Document) { d.Components.Schemas[component+"Host"].Properties["name"].Type = "integer" }, "type changed"},
		"request optional": {func(d *openapi.Document) { d.Components.Schemas[component+"Host"].Required = nil }, "became optional"},
		"response required": {func(d *openapi.Document) {
			s := d.Components.Schemas[component+"BeforeHostClaimResponse"]
			s.Required = append(s.Required, "reason")
		}, "became required"},
		"no longer blocking": {func(d *openapi.Document) { d.Paths[path].Post.Blocking = false }, "no longer blocks"},
		"now blocking": {func(d *openapi.Document) {
			d.Paths["/hooks.runtime.cluster.x-k8s.io/v1alpha1/aftercontrolplaneinitialized/{name}"].Post.Blocking = true
		}, "which did not block its caller, now does"},
		"member of oneOf replaced": {func(d *openapi.Document) { intOrString(d)[0] = &openapi.Schema{Type: "boolean"} }, `to "int-or-string one of boolean, string"`},
		"member of oneOf removed": {func(d *openapi.Document) {
			s := d.Components.Schemas[component+"Host"]
			s.Properties["labels"].OneOf = []*openapi.Schema{{Type: "string"}}
		}, "type changed"},
		"member of oneOf changed": {func(d *openapi.Document) {
			intOrString(d)[1] = &openapi.Schema{Ref: "#/components/schemas/" + component + "Host"}
		}, "type changed"},
		"oneOf in another order": {func(d *openapi.Document) { slices.Reverse(intOrString(d)) }, ""},
		"document of others": {func(d *openapi.Document) {
			d.Paths[path].Post.Blocking, d.Paths[path].Post.Lifecycle = false, nil
		}, ""},
		"value of an enumeration removed": {func(d *openapi.Document) {
			for _, s := range d.Components.Schemas {
				if status := s.Properties["status"]; status != nil && len(status.Enum) == 2 {
					status.Enum = []string{"Success", "Unknown"}
				}
			}
		}, `response.status: the value "Failure" was removed`},
		"value of an enumeration added": {func(d *openapi.Document) {
			s := d.Components.Schemas["io.k8s.sigs.cluster-api.api.core.v1beta2.MachineTaint"].Properties["effect"]
			s.Enum = append(slices.Clone(s.Enum), "NoVisit")
		}, ""},
		"field added": {func(d *openapi.Document) {
			d.Components.Schemas[component+"Host"].Properties["zone"] = &openapi.Schema{Type: "string"}
		}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			current := document(t)
			tt.change(current)
			got := strings.Join(openapi.Diff(document(t), current).Breaking, "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// intOrString returns the members of a oneOf of Cluster API's types: in the order
// integer, string.
func intOrString(d *openapi.Document) []*openapi.Schema {
	for _, s := range d.Components.Schemas {
		for _, property := range s.Properties {
			for _, candidate := range append(property.AllOf, property) {
				if len(candidate.OneOf) == 2 && candidate.OneOf[0].Type == "integer" {
					return candidate.OneOf
				}
			}
		}
	}
	panic("no type of Cluster API is one of two any more")
}

// TestCompareReadsMembers finds what changes within a member of oneOf, also where
// members refer to what contains them.
func TestCompareReadsMembers(t *testing.T) {
	const path, ref = "/g/v1/a", "#/components/schemas/A"
	document := func(fields ...string) *openapi.Document {
		properties := map[string]*openapi.Schema{"self": {OneOf: []*openapi.Schema{{Type: "string"}, {Ref: ref}}}}
		for _, field := range fields {
			properties[field] = &openapi.Schema{Type: "string"}
		}
		body := openapi.Body{Content: map[string]openapi.Media{"application/json": {Schema: &openapi.Schema{OneOf: []*openapi.Schema{{Ref: ref}}}}}}
		return &openapi.Document{
			Paths:      map[string]openapi.PathItem{path: {Post: &openapi.Operation{RequestBody: body, Responses: map[string]openapi.Body{"200": body}}}},
			Components: openapi.Components{Schemas: map[string]*openapi.Schema{"A": {Type: "object", Properties: properties}}},
		}
	}
	got := openapi.Diff(document("a", "b"), document("a", "c")).Breaking
	want := []string{path + " request.b: the field was removed", path + " response.b: the field was removed"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDocumentIsDeterministicAndClosed(t *testing.T) {
	a, err := document(t).JSON()
	if err != nil {
		t.Fatal(err)
	}
	b, _ := document(t).JSON()
	if !bytes.Equal(a, b) {
		t.Error("two documents of the same catalog differ")
	}
	d := document(t)
	for path, item := range d.Paths {
		media := item.Post.RequestBody.Content["application/json"]
		if len(media.Example) == 0 || d.Components.Schemas[strings.TrimPrefix(media.Schema.Ref, "#/components/schemas/")] == nil {
			t.Errorf("%s: the request has no example or no schema", path)
		}
	}
}

func FuzzParse(f *testing.F) {
	data, err := document(f).JSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"paths":{"/a":{"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/x"}}}}}}}}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if d, err := openapi.Parse(data); err == nil {
			openapi.Diff(d, d)
		}
	})
}
