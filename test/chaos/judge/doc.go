// Package judge says whether a history keeps the promises of docs/hazards.md. It is a pure
// function of the history: a run is judged while it goes on, afterwards, and again from
// its file.
//
// world.go replays the history, a file for each rule looks at each change of it, and
// converged.go says what is missing to what was asked for. It imports api, internal/host
// and test/chaos/history.
package judge
