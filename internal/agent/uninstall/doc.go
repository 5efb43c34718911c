// Package uninstall takes slipway-agent off a host, with the software that it installed,
// and tells what is left.
//
//	journal, node files ── serves ──> refused, nothing is changed
//	else: the agent stops ── software goes ── places (data) go, the program itself last
//	      ── look ──> what is left
//
// Whether the host serves is asked of the host alone: a Host that is gone, or a management
// cluster that nobody reaches, is no permission. A run that is cut off is followed by
// another one, which finds less to do; the program goes last, so it is there to be run.
//
// It may import core/journal, hostos, run/config and software.
package uninstall
