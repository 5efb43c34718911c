// Package health serves /healthz, /readyz and /metrics of the agent on a
// loopback address or a unix socket. Only the agent's main imports it.
package health
