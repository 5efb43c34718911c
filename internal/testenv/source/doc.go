// Package source reads the Go source of this repository, all of its modules, for tests that
// count or compare what it says. It needs no compiled package and no go command: what other
// repositories declare is unknown to it, so it is fast enough for the gate.
//
// Only tests may import it. It imports nothing of this repository.
package source
