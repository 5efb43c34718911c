// Package run puts slipway-agent together from its configuration and runs it: Agent is
// the whole program on a real host; Service enrolls one agent and serves its host, in one
// management cluster after the other as the host is handed over.
//
// It may import every room but preflight. cmd/slipway-agent imports it, and simulated
// hosts import Service.
package run
