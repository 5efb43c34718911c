package network

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// dumpTries bounds how often a list that keeps changing is read.
const dumpTries = 20

// ReadAll calls list until it is not interrupted: the kernel cuts a list of its routing
// socket short when it changes meanwhile, as it does while pods come and go.
func ReadAll[T any](list func() ([]T, error)) (all []T, err error) {
	for range dumpTries {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
	return nil, err
}
