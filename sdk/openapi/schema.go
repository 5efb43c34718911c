package openapi

import (
	"encoding"
	"encoding/json"
	"path"
	"reflect"
	"slices"
	"strings"
)

// Schema is the part of an OpenAPI v3.0 schema that Go types need.
type Schema struct {
	Ref                  string             `json:"$ref,omitempty"`
	Type                 string             `json:"type,omitempty"`
	Format               string             `json:"format,omitempty"`
	Description          string             `json:"description,omitempty"`
	Deprecated           bool               `json:"deprecated,omitempty"`
	Enum                 []string           `json:"enum,omitempty"`
	Properties           map[string]*Schema `json:"properties,omitempty"`
	Required             []string           `json:"required,omitempty"`
	Items                *Schema            `json:"items,omitempty"`
	AdditionalProperties *Schema            `json:"additionalProperties,omitempty"`
	OneOf                []*Schema          `json:"oneOf,omitempty"`
	AllOf                []*Schema          `json:"allOf,omitempty"`
	PreserveUnknown      bool               `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
}

// The methods by which Kubernetes types describe themselves.
type (
	typed     interface{ OpenAPISchemaType() []string }
	formatted interface{ OpenAPISchemaFormat() string }
	oneOf     interface{ OpenAPIV3OneOfTypes() []string }
	swagger   interface{ SwaggerDoc() map[string]string }
)

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

type generator struct {
	schemas map[string]*Schema
}

const refPrefix = "#/components/schemas/"

func (g *generator) reference(object any) *Schema {
	return g.schema(reflect.TypeOf(object).Elem())
}

// schema describes t. Structs are described once and referred to.
func (g *generator) schema(t reflect.Type) *Schema {
	if t.Kind() == reflect.Pointer {
		return g.schema(t.Elem())
	}
	if s := special(t); s != nil {
		return s
	}
	switch t.Kind() {
	case reflect.Bool:
		return &Schema{Type: "boolean"}
	case reflect.Int32, reflect.Uint32, reflect.Int16, reflect.Uint16, reflect.Int8, reflect.Uint8:
		return &Schema{Type: "integer", Format: "int32"}
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64:
		return &Schema{Type: "integer", Format: "int64"}
	case reflect.Float32, reflect.Float64:
		return &Schema{Type: "number", Format: "double"}
	case reflect.String:
		return &Schema{Type: "string", Enum: comments()[componentName(t)].Enum}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return &Schema{Type: "string", Format: "byte"}
		}
		return &Schema{Type: "array", Items: g.schema(t.Elem())}
	case reflect.Map:
		return &Schema{Type: "object", AdditionalProperties: g.schema(t.Elem())}
	case reflect.Struct:
		return g.structRef(t)
	default:
		return &Schema{PreserveUnknown: true}
	}
}

// special describes types with a JSON form of their own, nil for all others.
func special(t reflect.Type) *Schema {
	value := reflect.New(t).Interface()
	if o, ok := value.(oneOf); ok {
		s := &Schema{}
		if f, ok := value.(formatted); ok {
			s.Format = f.OpenAPISchemaFormat()
		}
		for _, name := range o.OpenAPIV3OneOfTypes() {
			s.OneOf = append(s.OneOf, &Schema{Type: name})
		}
		return s
	}
	if d, ok := value.(typed); ok {
		s := &Schema{}
		if types := d.OpenAPISchemaType(); len(types) > 0 {
			s.Type = types[0]
		} else {
			s.PreserveUnknown = true
		}
		if f, ok := value.(formatted); ok {
			s.Format = f.OpenAPISchemaFormat()
		}
		return s
	}
	pointer := reflect.PointerTo(t)
	if pointer.Implements(marshaler) {
		return &Schema{Type: "object", PreserveUnknown: true}
	}
	if pointer.Implements(textMarshaler) {
		return &Schema{Type: "string"}
	}
	return nil
}

func (g *generator) structRef(t reflect.Type) *Schema {
	name := componentName(t)
	if _, ok := g.schemas[name]; !ok {
		s := &Schema{Type: "object", Properties: map[string]*Schema{}}
		// Entered before its fields are visited: types may refer to themselves.
		g.schemas[name] = s
		comment := commentOf(t)
		s.Description, s.Deprecated = comment.Description, deprecated(comment.Description)
		g.fields(t, comment.Fields, s)
		slices.Sort(s.Required)
	}
	return &Schema{Ref: refPrefix + name}
}

func (g *generator) fields(t reflect.Type, docs map[string]fieldComment, s *Schema) {
	for field := range t.Fields() {
		name, optional, inline, skip := jsonField(field)
		if skip {
			continue
		}
		if inline {
			embedded := field.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			g.fields(embedded, commentOf(embedded).Fields, s)
			continue
		}
		property := g.schema(field.Type)
		doc := docs[name]
		if doc.Description != "" {
			if property.Ref != "" {
				// Siblings of $ref are ignored in OpenAPI v3.0.
				property = &Schema{AllOf: []*Schema{property}}
			}
			property.Description, property.Deprecated = doc.Description, deprecated(doc.Description)
		}
		if len(doc.Enum) > 0 && property.Type == "string" {
			property.Enum = doc.Enum
		}
		s.Properties[name] = property
		if !optional && !slices.Contains(s.Required, name) {
			s.Required = append(s.Required, name)
		}
	}
}

// jsonField tells how encoding/json treats a field.
func jsonField(field reflect.StructField) (name string, optional, inline, skip bool) {
	tag := field.Tag.Get("json")
	name, flags, _ := strings.Cut(tag, ",")
	if tag == "-" || (!field.IsExported() && !field.Anonymous) {
		return "", false, false, true
	}
	if field.Anonymous && name == "" {
		return "", false, true, false
	}
	if name == "" {
		name = field.Name
	}
	optional = field.Type.Kind() == reflect.Pointer
	for flag := range strings.SplitSeq(flags, ",") {
		optional = optional || flag == "omitempty" || flag == "omitzero"
	}
	return name, optional, false, false
}

// componentName is Kubernetes' form: k8s.io/api/core/v1.Taint is
// io.k8s.api.core.v1.Taint.
func componentName(t reflect.Type) string {
	host, rest, _ := strings.Cut(t.PkgPath(), "/")
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.ReplaceAll(path.Join(strings.Join(labels, "."), rest), "/", ".") + "." + t.Name()
}
