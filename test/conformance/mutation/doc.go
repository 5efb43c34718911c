// Command mutation shows that the rules of the provider conformance suite can fail, and the
// tests that judge the lifecycle engine and the boundaries of docs/security.md. It breaks
// the provider, the engine or a manifest in one place at a time, as lists of mutations say,
// in a copy of the tree, and runs the rule or test that must notice. A mutation that lives is
// a hole in the suite.
//
//	go run ./test/conformance/mutation [-rule REGEXP] [-workers N]
//
//	go run ./test/conformance/mutation generate [-files REGEXP] [-mutants REGEXP] [-short] [-workers N]
//
// makes every small fault in a file by its syntax, and runs the tests of its package on each. All mutants of a package are compiled into one program, by the go command's overlay: a
// variable of its environment chooses one, and those tests run that reach it. A mutant costs a
// second where pure tests notice it, and ten with an API server; with tools that compile the package
// for each mutant it is minutes. survivors.yaml holds files: another survivor in one of
// them is an error. `make test-mutants` runs those.
//
// `make test-mutation` runs them all, which takes an hour and a half on two cores. That each
// mutation still fits the code, and that each rule has one, is a test of every day.
//
// It may import what test/conformance/provider may.
package main
