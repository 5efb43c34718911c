// Package judge says whether a history keeps the promises of docs/hazards.md. It is a pure
// function of the history: a run is judged while it goes on, afterwards, and again from
// its file.
//
// entry.go has the history: every version of every object that was seen, and the faults that were
// injected, in the order in which the API servers wrote them. resourceVersions of one API server
// order all its objects; those of two say nothing about each other, so that histories of several
// clusters are put together by when they were seen.
//
// world.go replays the history, a file for each rule looks at each change of it, and
// converged.go says what is missing to what was asked for. It imports api and internal/host.
package judge
