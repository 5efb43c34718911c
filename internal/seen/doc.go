// Package seen tells how long things have been as they are, by the clock of who looks:
// what an object says about times was written by another clock, which may be wrong. What
// is remembered ends with the process, after which every time begins anew.
//
// Controllers import it; it imports nothing of this module.
package seen
