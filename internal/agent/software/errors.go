package software

import (
	"errors"
	"flag"
	"fmt"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// Reason says why software was not installed or uninstalled.
type Reason string

const (
	// ReasonForeign means that something of somebody else is in the way.
	ReasonForeign Reason = "Foreign"
	// ReasonChanged means that somebody changed what an earlier install wrote.
	ReasonChanged Reason = "Changed"
	// ReasonNoSpace means that the disk is, or would be, full.
	ReasonNoSpace Reason = "NoSpace"
	// ReasonInUse means that the host is a node that runs by this software.
	ReasonInUse Reason = "InUse"
	// ReasonNotInstalled means that there is no such version to uninstall.
	ReasonNotInstalled Reason = "NotInstalled"
	// ReasonOtherBundle means that a source has another bundle of the version than the wanted one.
	ReasonOtherBundle Reason = "OtherBundle"
	// ReasonBusy means that another command is at work on the host.
	ReasonBusy Reason = "Busy"
)

// Error is a refusal with its remedy. What was begun is in the record, and the same
// command goes on with it.
type Error struct {
	Reason Reason
	Err    error
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Exit codes by which `slipway host add` tells what to do; any other failure ends with 1.
const (
	exitUsage = 2
	// exitNoSpace has the number of ENOSPC, exitBusy that of EX_TEMPFAIL in sysexits.h.
	exitNoSpace = 28
	exitBusy    = 75
)

// ExitCode is the exit code of `slipway-agent software` for an error of Command.
func ExitCode(err error) int {
	var refused *Error
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, ErrUsage):
		return exitUsage
	case !errors.As(err, &refused):
		return 1
	case refused.Reason == ReasonNoSpace:
		return exitNoSpace
	case refused.Reason == ReasonBusy:
		return exitBusy
	}
	return 1
}

func refuse(reason Reason, format string, args ...any) error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// Explain is the text of an error of this package, or of a bundle, behind its reason.
func Explain(err error) string {
	var host *Error
	var bundle *hostbundle.Error
	switch {
	case errors.As(err, &host):
		return fmt.Sprintf("%s: %v", host.Reason, err)
	case errors.As(err, &bundle):
		return fmt.Sprintf("%s: %v", bundle.Reason, err)
	}
	return err.Error()
}
