// Package doctor finds known failure patterns in a management cluster and says of each
// what is wrong, where, since when, and what to do next. Its report is the output of
// `slipway doctor -o json`, so its fields are an API.
//
//	Read      takes a Snapshot of what the user may read; what may not be is told in it
//	Checks    all failure patterns, by layers: causes first
//	Diagnose  applies them to a Snapshot; it is pure
//
// A check repeats what the controllers found, as conditions or by the functions that they
// use; it computes no fact of its own. Each is one file and its test, which `make new-check NAME=Name`
// writes; `make docs` writes its row in docs/troubleshooting.md.
package doctor
