// Package budget counts what a reader of this repository has to read: code lines and packages of
// each part, lines of documents and scripts, outdated words, and the files of a journey through
// the code; the SDK's runtime against upstream's, and its functions that nobody uses.
// hack/budget.txt has the maximum of each figure; the test fails when a figure exceeds it.
// `go test ./test/budget -update` writes the current figures: run it when a figure fell. A commit
// that raises a maximum gives the reason in its body.
//
// `go test ./test/budget -v` prints all figures, and
// `go test ./test/budget -v -files "slipway status"` the files of one journey. With
// `-why internal/host/phase.go` it prints the references that lead to that file, the last first.
//
// It imports internal/testenv/source.
package budget
