// Package heartbeat renews the Lease by which the management cluster knows that
// the agent is alive. A heartbeat costs one small write and never touches the
// Host. It may be imported by the agent's loop.
package heartbeat
