// Package inventory finds out what the host is: its system, capacity, addresses
// and identity. It may be imported by the agent's assembly.
package inventory
