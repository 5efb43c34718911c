// Package journal keeps what the agent must know after a crash: the claim it
// serves, how far an operation has come, and what it put on the host.
//
// The file is append-only. Each line is a complete record of the state with a
// checksum, written with fsync before the effect it announces. The last whole
// line is the state; a torn line is a write that never returned, so the effect
// it announces never began. A whole line that cannot be read is damage: the file is
// kept, and the state says that what was done to the host is not known. The package
// imports only the API types and internal/durable.
package journal
