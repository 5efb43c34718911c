// Package progress shows on a terminal what a long command waits for and why: a
// tree of steps that is redrawn in place, or plain lines when the output is not
// a terminal.
//
// It is imported by the commands (internal/cli, internal/up) and imports nothing
// of this module.
package progress
