// Package conformance checks a runtime extension over HTTPS, whatever language it
// is written in: its connection, discovery, and for each handler what the guidelines
// for authors (docs/sdk/guidelines.md) say and a caller can find out.
//
// A rule that is broken is an error, advice that is not followed a warning. Check
// returns a report and needs no testing framework; hooktest.Conformance runs it as
// subtests. Handlers are called with example requests, so the extension must not
// serve anything real meanwhile. The package may import the packages client, hook,
// hooks/capi, openapi and registry.
package conformance
