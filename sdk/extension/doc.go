// Package extension serves runtime hooks over HTTPS.
//
// An extension makes a Server, registers one function for each hook it handles
// with Handle and calls Run. Discovery, health, readiness, metrics and the
// OpenAPI document come from what is registered. The wire format is Cluster
// API's: any Cluster API manager can call the server.
//
// A request passes, in this order: route, method, client certificate, size and
// encoding, decoding, conversion to the version of the handler, a free slot, the
// handler under its deadline, conversion back, encoding. The first step that
// refuses answers with an HTTP status and a response whose status is Failure.
//
// The package must never import client-go or k8s.io/kubernetes: a test checks it.
package extension
