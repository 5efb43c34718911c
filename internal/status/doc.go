// Package status gathers what a plane runs into one document: the plane, its
// clusters with their nodes, and the hosts. The document is the output of
// `slipway status -o json`, so its fields are an API.
//
// It is imported by the commands, by internal/doctor and by the plane's internal/up, and reads
// only.
package status
