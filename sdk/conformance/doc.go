// Package conformance checks a runtime extension over HTTPS, whatever language it
// is written in: discovery, idempotence, determinism, timeouts and bad input.
//
// Check returns a report and needs no testing framework; hooktest.Conformance runs
// it as subtests. Handlers are called with example requests, so the extension
// must not serve anything real meanwhile. The package may import the packages
// client, hook, registry and openapi.
package conformance
