// Package assembly puts slipway-agent together from its configuration and runs
// it. Only cmd/slipway-agent imports it.
package assembly
