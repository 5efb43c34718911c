package hostbundle

import "fmt"

// Reason says what is wrong with a bundle.
type Reason string

const (
	// ReasonNotFound means that the source holds no bundle of the version.
	ReasonNotFound Reason = "NotFound"
	// ReasonWrongArchitecture means that the bundle is for other machines.
	ReasonWrongArchitecture Reason = "WrongArchitecture"
	// ReasonUnsigned means that no signature goes with the bundle.
	ReasonUnsigned Reason = "Unsigned"
	// ReasonUntrusted means that no signature of the bundle is by a key that is trusted.
	ReasonUntrusted Reason = "Untrusted"
	// ReasonCorrupt means that content is not what its digest says.
	ReasonCorrupt Reason = "Corrupt"
	// ReasonUnreachable means that a source did not answer, again and again.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonDenied means that a source cannot be trusted, or may not be read.
	ReasonDenied Reason = "Denied"
)

// Error is a bundle that must not be used, or cannot be had.
type Error struct {
	Reason Reason
	Err    error
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func fail(reason Reason, format string, args ...any) error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}
