// Package hostlog answers HostLogRequests: the agent reads the log of a part of its host and writes it
// into the status of the request.
//
//	Answerer   which requests the Host names, what becomes of each
//	answer     lines of a log: bounded, escaped, without credentials
//	Journal    reads the journal of systemd
//
// The manager names requests on the Host, and gives the right to exactly those (docs/decisions). What a log
// has is written by anybody on the host, and is not trusted.
//
// internal/agent/run imports it.
package hostlog
