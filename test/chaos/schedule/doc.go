// Package schedule plans which faults are injected when. A plan is a pure function of its
// seed: the same seed gives the same faults, hosts, sizes and pauses. What is only known
// once a fault is injected, such as the names of machines, is chosen by a number that the
// plan draws.
//
// It imports nothing but the standard library.
package schedule
