package openapi

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/sdk/hook"
)

// Document is the part of an OpenAPI v3.0 document that describes hooks.
type Document struct {
	OpenAPI    string              `json:"openapi"`
	Info       Header              `json:"info"`
	Paths      map[string]PathItem `json:"paths"`
	Components Components          `json:"components"`
}

// Header is the info object of a document.
type Header struct {
	Title       string `json:"title"`
	Description string `json:"description,omitempty"`
	Version     string `json:"version"`
}

// PathItem holds the only operation of a hook's path.
type PathItem struct {
	Post *Operation `json:"post,omitempty"`
}

// Operation is one version of a hook.
type Operation struct {
	OperationID string              `json:"operationId"`
	Tags        []string            `json:"tags,omitempty"`
	Summary     string              `json:"summary,omitempty"`
	Description string              `json:"description,omitempty"`
	Deprecated  bool                `json:"deprecated,omitempty"`
	Parameters  []Parameter         `json:"parameters,omitempty"`
	RequestBody Body                `json:"requestBody"`
	Responses   map[string]Body     `json:"responses"`
	Lifecycle   *LifecycleExtension `json:"x-lifecycle,omitempty"`
	Blocking    bool                `json:"x-blocking,omitempty"`
}

// LifecycleExtension is the lifecycle of a hook version as releases.
type LifecycleExtension struct {
	Introduced  string `json:"introduced,omitempty"`
	Deprecated  string `json:"deprecated,omitempty"`
	Removed     string `json:"removed,omitempty"`
	Replacement string `json:"replacement,omitempty"`
}

// Parameter is a part of the path or the query.
type Parameter struct {
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Description string  `json:"description,omitempty"`
	Required    bool    `json:"required,omitempty"`
	Schema      *Schema `json:"schema"`
}

// Body is the content of a request or response.
type Body struct {
	Description string           `json:"description,omitempty"`
	Required    bool             `json:"required,omitempty"`
	Content     map[string]Media `json:"content,omitempty"`
}

// Media is a body in one media type.
type Media struct {
	Schema  *Schema         `json:"schema"`
	Example json.RawMessage `json:"example,omitempty"`
}

// Components holds the schemas that others refer to.
type Components struct {
	Schemas map[string]*Schema `json:"schemas"`
}

// Info is what a document says about itself.
type Info struct {
	// Title names the document.
	Title string
	// Description is free text in CommonMark.
	Description string
	// Version is the version of the document. Default: "v1".
	Version string
	// Prefix precedes the path of each hook. Default: none.
	Prefix string
}

// New describes definitions. The same definitions give the same document,
// whatever their order.
func New(info Info, definitions []*hook.Definition) *Document {
	if info.Version == "" {
		info.Version = "v1"
	}
	g := &generator{schemas: map[string]*Schema{}}
	d := &Document{
		OpenAPI:    "3.0.0",
		Info:       Header{Title: info.Title, Description: info.Description, Version: info.Version},
		Paths:      map[string]PathItem{},
		Components: Components{Schemas: g.schemas},
	}
	for _, definition := range definitions {
		path := info.Prefix + hook.Path(definition.Name, "")
		if !definition.Meta.Singleton {
			path += "/{name}"
		}
		d.Paths[path] = PathItem{Post: g.operation(definition)}
	}
	return d
}

// ForCatalog describes all hooks of a catalog.
func ForCatalog(info Info, c *hook.Catalog) *Document { return New(info, c.All()) }

// JSON returns the document with sorted keys.
func (d *Document) JSON() ([]byte, error) {
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	return data, nil
}

// Parse reads a document that JSON wrote.
func Parse(data []byte) (*Document, error) {
	d := &Document{}
	if err := json.Unmarshal(data, d); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	return d, nil
}

// describe tells also what becomes of a version that is deprecated.
func describe(m hook.Meta) string {
	if !m.Deprecated() {
		return m.Description
	}
	return strings.TrimSpace(m.Description + "\n\nDeprecated since " + m.Lifecycle.Deprecated.Version + ": " + m.Lifecycle.Advice() + ".")
}

func (g *generator) operation(d *hook.Definition) *Operation {
	request, response := d.NewRequest(), d.NewResponse()
	op := &Operation{
		OperationID: d.Name.Version + d.Name.Hook,
		Tags:        d.Meta.Tags,
		Summary:     d.Meta.Summary,
		Description: describe(d.Meta),
		Deprecated:  d.Meta.Deprecated(),
		Blocking:    d.Blocking(),
		Lifecycle: &LifecycleExtension{
			Introduced:  d.Meta.Lifecycle.Introduced.Version,
			Deprecated:  d.Meta.Lifecycle.Deprecated.Version,
			Removed:     d.Meta.Lifecycle.Removed.Version,
			Replacement: d.Meta.Lifecycle.Replacement,
		},
		RequestBody: Body{Required: true, Content: map[string]Media{"application/json": {
			Schema:  g.reference(request),
			Example: exampleRequest(d),
		}}},
		Responses: map[string]Body{"200": {Description: "OK", Content: map[string]Media{"application/json": {
			Schema:  g.reference(response),
			Example: exampleResponse(d),
		}}}},
	}
	if !d.Meta.Singleton {
		op.Parameters = append(op.Parameters, Parameter{
			Name: "name", In: "path", Required: true, Schema: &Schema{Type: "string"},
			Description: "The handler name. Handlers within a single extension have unique names.",
		})
	}
	op.Parameters = append(op.Parameters, Parameter{
		Name: "timeout", In: "query", Schema: &Schema{Type: "string"},
		Description: "The time that the caller waits, as a Go duration, for example 10s.",
	})
	return op
}
