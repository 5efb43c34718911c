// Command new writes what a new thing of this repository consists of, to be filled in: the check or the
// kind of step of that name, with its test.
//
//	go run ./hack/new check DiskFull
//	go run ./hack/new step-kind pause
//
// It imports only the standard library.
package main
