// Package supervisor starts the plane of `slipway up` again when it ends by itself. An embedded part of Kubernetes,
// which its own kubelet or systemd would start again, ends the whole plane when it panics or exits. A plane that is a
// service has systemd for that, and one in the foreground whoever started it.
//
// The supervisor is the plane's parent, a process of slipway-sandbox, since that is small:
//
//	slipway up ── starts ──> slipway-sandbox supervise STATE_DIR slipway serve ...
//	                           └─ starts, and starts again ──> slipway serve
//
// Both have the lock of the state directory, one open file: it is free when both have ended. If the supervisor is
// killed, the plane goes on, and the next `slipway up` starts both anew. `slipway down` signals the supervisor, which
// ends the plane and starts nothing any more.
//
// It is imported by cmd/slipway-sandbox. It imports internal/statedir.
package supervisor
