// Command failures tells why tests failed: what each failed test said by t.Error, t.Fatal and
// t.Log, a line of each, from the events that gotestsum keeps. `make failures` runs it on the
// last runs, and CI at its end, where thousands of lines of logs lie between a failure and
// whoever looks for it.
//
// It imports nothing but the standard library.
package main
