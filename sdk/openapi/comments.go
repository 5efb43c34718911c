package openapi

import (
	_ "embed"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"sync"
)

// commentsJSON holds the comments of the types of all hooks that this module knows,
// by the names of their components. TestCommentsAreCurrent writes it.
//
//go:embed comments.json
var commentsJSON []byte

// typeComment is what the Go source says of a type.
type typeComment struct {
	Description string `json:"description,omitempty"`
	// Enum holds the values that a string may have, none for any.
	Enum []string `json:"enum,omitempty"`
	// Fields holds what it says of the type's fields, by their JSON names.
	Fields map[string]fieldComment `json:"fields,omitempty"`
}

type fieldComment struct {
	Description string   `json:"description,omitempty"`
	Enum        []string `json:"enum,omitempty"`
}

var comments = sync.OnceValue(func() map[string]typeComment {
	known := map[string]typeComment{}
	if err := json.Unmarshal(commentsJSON, &known); err != nil {
		// A part of the program that a test reads.
		panic(err)
	}
	return known
})

// commentOf returns what is known of a type: by its SwaggerDoc method, as types of
// Kubernetes have it and types of one's own may, and by the comments of this module.
func commentOf(t reflect.Type) typeComment {
	c := comments()[componentName(t)]
	docs := docsOf(t)
	if docs == nil {
		return c
	}
	if c.Fields = maps.Clone(c.Fields); c.Fields == nil {
		c.Fields = map[string]fieldComment{}
	}
	for name, text := range docs {
		if name == "" {
			c.Description = text
			continue
		}
		field := c.Fields[name]
		field.Description = text
		c.Fields[name] = field
	}
	return c
}

// docsOf returns what a type says of itself, nil if nothing. What it has from a struct
// that it embeds, such as TypeMeta, is about that struct.
func docsOf(t reflect.Type) map[string]string {
	s, ok := reflect.New(t).Interface().(swagger)
	if !ok {
		return nil
	}
	docs := s.SwaggerDoc()
	if t.Kind() != reflect.Struct {
		return docs
	}
	for field := range t.Fields() {
		if embedded, ok := reflect.New(field.Type).Interface().(swagger); ok && field.Anonymous && maps.Equal(docs, embedded.SwaggerDoc()) {
			return nil
		}
	}
	return docs
}

// deprecated tells whether a comment says so in Go's way: a paragraph that begins with
// the word.
func deprecated(description string) bool {
	return strings.HasPrefix(description, "Deprecated:") || strings.Contains(description, "\n\nDeprecated:")
}
