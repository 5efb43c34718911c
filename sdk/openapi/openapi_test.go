package openapi_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
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
	if changes := openapi.Compare(old, document(t)); len(changes) > 0 {
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
		"field added": {func(d *openapi.Document) {
			d.Components.Schemas[component+"Host"].Properties["zone"] = &openapi.Schema{Type: "string"}
		}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			current := document(t)
			tt.change(current)
			got := strings.Join(openapi.Compare(document(t), current), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
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
			openapi.Compare(d, d)
		}
	})
}
