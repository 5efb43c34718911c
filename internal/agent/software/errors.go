package software

import (
	"errors"
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
