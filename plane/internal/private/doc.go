// Package private checks that a file or directory with secrets is this user's alone.
//
// It imports the standard library only; whoever reads or writes secrets of the plane
// imports it.
package private
