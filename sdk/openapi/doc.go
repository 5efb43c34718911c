// Package openapi describes the hooks of any catalog as an OpenAPI v3 document
// and compares two documents for changes that break callers or extensions.
//
// Schemas come from the Go types as encoding/json writes them; descriptions from
// their SwaggerDoc methods where they have one. The package may import package
// hook and apimachinery.
package openapi
