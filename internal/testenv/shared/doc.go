// Package shared makes once what the tests of several packages use, each of which runs in a
// process of its own: programs of this repository, the disk of a test machine, the data of an
// API server. It also finds ports, which such processes must not take from each other.
//
// Only tests may import it. It imports nothing of this repository.
package shared
