// Package down is what `slipway down` does. It needs no plane that answers:
// everything is found from the state directory and the kernel, so it works after
// any crash and may be repeated.
//
// It is imported by internal/cli only.
package down
