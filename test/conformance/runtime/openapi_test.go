package runtime

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/openapi"
)

func catalog(t *testing.T) *hook.Catalog {
	t.Helper()
	c := hook.NewCatalog()
	if err := errors.Join(capi.AddToCatalog(c), host.AddToCatalog(c)); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestExamplesValidate validates the example of each request and response against its
// schema by the validator of Kubernetes.
func TestExamplesValidate(t *testing.T) {
	d := openapi.ForCatalog(openapi.Info{}, catalog(t))
	for path, item := range d.Paths {
		for part, media := range map[string]openapi.Media{
			"request": item.Post.RequestBody.Content["application/json"], "response": item.Post.Responses["200"].Content["application/json"],
		} {
			for _, message := range invalid(t, d, media) {
				t.Errorf("%s: the example of the %s: %s", path, part, message)
			}
		}
	}
}

// TestInvalidExamplesAreFound holds that the validation above can fail.
func TestInvalidExamplesAreFound(t *testing.T) {
	d := openapi.ForCatalog(openapi.Info{}, catalog(t))
	media := d.Paths["/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/{name}"].Post.Responses["200"].Content["application/json"]
	for example, want := range map[string]string{
		`{"status":"Maybe","retryAfterSeconds":30}`: "status", `{"status":"Success"}`: "retryAfterSeconds", `{"status":"Success","retryAfterSeconds":"30"}`: "retryAfterSeconds",
	} {
		media.Example = json.RawMessage(example)
		if found := strings.Join(invalid(t, d, media), "; "); !strings.Contains(found, want) {
			t.Errorf("%s: found %q, want it to be about %s", example, found, want)
		}
	}
}

func invalid(t *testing.T, d *openapi.Document, media openapi.Media) []string {
	t.Helper()
	if len(media.Example) == 0 {
		return []string{"there is none"}
	}
	var example any
	if err := json.Unmarshal(media.Example, &example); err != nil {
		return []string{err.Error()}
	}
	data, err := json.Marshal(inlined(d, media.Schema, example))
	if err != nil {
		t.Fatal(err)
	}
	var schema spec.Schema
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	var messages []string
	for _, err := range validate.NewSchemaValidator(&schema, nil, "", strfmt.Default).Validate(example).Errors {
		messages = append(messages, err.Error())
	}
	return messages
}

// inlined returns a schema without references, as far as an example needs it: types
// may refer to themselves, examples don't.
func inlined(d *openapi.Document, s *openapi.Schema, example any) *openapi.Schema {
	for s != nil && (s.Ref != "" || len(s.AllOf) == 1) {
		if len(s.AllOf) == 1 {
			s = s.AllOf[0]
		} else {
			s = d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
		}
	}
	if s == nil {
		return nil
	}
	copied := *s
	copied.Properties, copied.Items, copied.AdditionalProperties = map[string]*openapi.Schema{}, nil, nil
	fields, _ := example.(map[string]any)
	for name, value := range fields {
		if property := s.Properties[name]; property != nil {
			copied.Properties[name] = inlined(d, property, value)
		}
	}
	if items, _ := example.([]any); len(items) > 0 {
		copied.Items = inlined(d, s.Items, items[0])
	}
	return &copied
}
