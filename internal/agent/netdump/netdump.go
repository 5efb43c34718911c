// Package netdump reads lists from the kernel's routing socket. The kernel cuts
// a list short when it changes meanwhile, as it does while pods come and go; the
// remedy is to read it again. The packages of the agent that talk to the kernel's
// network import it.
package netdump

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// tries bounds how often a list that keeps changing is read.
const tries = 20

// Read calls list until it is not interrupted.
func Read[T any](list func() ([]T, error)) (all []T, err error) {
	for range tries {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
	return nil, err
}
