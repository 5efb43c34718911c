// Package up is what `slipway up` does: stages of phases, in order, from the
// look at the machine to the Ready nodes. Every phase finds out what is there
// already, so that a second run continues where the first was cut off.
//
//	options.go   what the user chose
//	session.go   what the phases share, and the stages as data; one phase_*.go each
//	process.go   the process of the plane: started here or by systemd
//	apply.go     objects are applied without changing what others have changed
//	clusterfile.go  what `slipway up -f` gets, and what is wrong with it before anything is started; pure
//	down.go      `slipway down`: all is found from the state directory and the kernel, so it takes no
//	             plane that answers, works after any crash and may be repeated
//
// It is imported by internal/cli only.
package up
