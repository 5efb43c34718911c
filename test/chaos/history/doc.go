// Package history is what was seen of a plane and its clusters: every version of every
// object that was looked at, and the faults that were injected, in the order in which the
// API servers wrote them.
//
// resourceVersions of one API server order all its objects; those of two say nothing about
// each other, so that histories of several clusters are put together by when they were
// seen. It imports nothing of this repository.
package history
