// Package testenv runs tests against a real API server and etcd, the ones this
// repository builds, and plays the parts that are not there: the agents of hosts,
// and a manager that is killed between two writes.
//
// Only tests may import it.
package testenv
