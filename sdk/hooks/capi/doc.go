// Package capi defines the 17 hooks of Cluster API v1.14 from upstream's types.
//
// It may import upstream's types and package hook, and nothing else of the SDK.
package capi
