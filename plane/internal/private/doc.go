// Package private checks that a file or directory with secrets is this user's alone, and
// that nobody else decides what root acts on.
//
//	private.go      who reads a path
//	replaceable.go  who replaces what is found at one
//
// It imports the standard library only; whoever reads or writes secrets of the plane, or
// has the machine run its programs, imports it.
package private
