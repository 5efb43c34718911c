package network

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// dumpTries bounds how often a list that keeps changing is read.
const dumpTries = 20

// ReadAll calls list until it is whole: the kernel cuts a list short, or repeats a part of it, when it changes meanwhile, as
// it does while pods come and go.
func ReadAll[T any](list func() (T, error)) (all T, err error) {
	for range dumpTries {
		if all, err = list(); !slices.ContainsFunc(cutShort, func(cut error) bool { return errors.Is(err, cut) }) {
			return all, err
		}
	}
	return all, err
}

// cutShort are the errors of a list that may be read again: it changed, or the kernel had no memory for it at the moment.
var cutShort = []error{netlink.ErrDumpInterrupted, unix.ENOBUFS, unix.EINTR}

// twice reads until it has the same two times in a row. Not of each list that it cuts short does the kernel say so: rules of
// nftables count from when they are sent, and those after them are repeated, or missing, before there is a new generation.
func twice(look func() (map[string]string, error)) (map[string]string, error) {
	before, err := ReadAll(look)
	for range dumpTries {
		if err != nil {
			return nil, err
		}
		var now map[string]string
		if now, err = ReadAll(look); err == nil && maps.Equal(before, now) {
			return now, nil
		}
		before = now
	}
	return nil, fmt.Errorf("it does not stop to change: %w", netlink.ErrDumpInterrupted)
}

// dump returns a list of the kernel as it encodes it. Of one that changed meanwhile the kernel says so, perhaps in the
// message that only ends it: that is netlink.ErrDumpInterrupted.
func dump(family, message int, header []byte) ([][]byte, error) {
	request := nl.NewNetlinkRequest(message, unix.NLM_F_DUMP)
	request.AddRawData(header)
	return request.Execute(family, 0)
}
