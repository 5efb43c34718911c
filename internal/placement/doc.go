// Package placement chooses the host for a machine. It is a pure function over a
// list of hosts: the same input always gives the same choice, and every host that
// was not chosen gets a reason a person can act on. Package inputs below it reads that
// input.
//
// It may import only the API types, apimachinery and internal/host.
package placement
