// Package process identifies a process by more than its number, which the kernel gives to another process once
// the first one has ended, and signals it by a descriptor.
//
// It imports the standard library and golang.org/x/sys; sandbox and statedir import it.
package process
