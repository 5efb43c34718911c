// Package status gathers what a plane runs into one document: the plane, its
// clusters with their nodes, and the hosts. The document is the output of
// `slipway status -o json`, so its fields are an API.
//
// It only reads.
package status
