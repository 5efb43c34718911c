// Package openapi holds the OpenAPI document of the runtime hooks against Kubernetes' own
// validator of schemas, which the SDK does not depend on. Nothing may import it.
package openapi
