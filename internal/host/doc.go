// Package host holds what the managers and the agent agree on about a Host, as
// pure functions: its identity, the names of its operations, whether its agent
// is connected, which phase it is in, and whether it can be claimed.
//
// It may import only the API types, apimachinery and internal/version. It does no I/O and reads no
// clock, so that every rule about a host is a table test.
package host
