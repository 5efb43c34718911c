// Package openapi describes the hooks of any catalog as an OpenAPI v3 document
// and compares two documents for changes that break callers or extensions.
//
// Schemas come from the Go types as encoding/json writes them; descriptions and the
// values of enumerations from the comments of the types of all hooks of this module,
// which are collected into comments.json. A type of somebody else's describes itself
// and its fields by a method SwaggerDoc, as types of Kubernetes do.
package openapi
