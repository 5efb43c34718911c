// Command mutation shows that the rules of the provider conformance suite can fail, and the
// tests that judge the lifecycle engine and the boundaries of docs/security.md. It breaks
// the provider, the engine or a manifest in one place at a time, as lists of mutations say,
// in a copy of the tree, and runs the rule or test that must notice. A mutation that lives is
// a hole in the suite.
//
//	go run ./test/conformance/mutation [-rule REGEXP] [-workers N]
//
// `make test-mutation` runs them all, which takes an hour and a half on two cores. That each
// mutation still fits the code, and that each rule has one, is a test of every day.
//
// It may import what test/conformance/provider may.
package main
