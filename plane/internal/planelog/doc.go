// Package planelog keeps the log of a plane that `slipway up` starts in files of bounded
// size and number: plane.log, and the older ones as plane.log.1 up to plane.log.4. A plane
// that systemd runs logs to the journal instead.
//
// The plane and slipway-lifecycle write to one descriptor, by which also the last words of a
// Go program that panics get there. That rules out a writer inside the process, such as
// lumberjack: it would lose them.
//
// It is imported by internal/up, internal/cli, internal/planeclient, internal/instance and internal/supervisor, and
// imports nothing of this repository.
package planelog
