package provision

import (
	"context"
	"fmt"
	"io"
)

// Machine runs scripts of the POSIX shell as root. It is safe for use by one goroutine.
type Machine interface {
	// Run returns what the script wrote to its standard output. Its standard input is
	// stdin, nothing when that is nil. An *ExitError says that the script ended with
	// another code than 0; after any other error it is not known how far it came.
	Run(ctx context.Context, script string, stdin io.Reader) (string, error)
	Close() error
}

// ExitError is a script that failed.
type ExitError struct {
	Code int
	// Stderr is the end of what it wrote there.
	Stderr string
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Stderr
}

// Reason says why a machine was refused; stable for scripts.
type Reason string

// Reasons that provision/remote gives.
const (
	// ReasonHostKeyUnknown means that no known_hosts file has a key of the machine.
	ReasonHostKeyUnknown Reason = "HostKeyUnknown"
	// ReasonHostKeyChanged means that it has another one.
	ReasonHostKeyChanged Reason = "HostKeyChanged"
	// ReasonUnreachable means that nobody answers by SSH there.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonLoginRefused means that no key of the user was accepted.
	ReasonLoginRefused Reason = "LoginRefused"
	// ReasonNoRoot means that the user can become root only with a password, or not at all.
	ReasonNoRoot Reason = "NoRoot"
)

// Reasons of this package.
const (
	ReasonUnsupportedSystem  Reason = "UnsupportedSystem"
	ReasonArchitecture       Reason = "WrongArchitecture"
	ReasonNoSystemd          Reason = "NoSystemd"
	ReasonNoSpace            Reason = "NoSpace"
	ReasonClockSkewed        Reason = "ClockSkewed"
	ReasonEnrolledElsewhere  Reason = "EnrolledElsewhere"
	ReasonForeignRuntime     Reason = "ForeignRuntime"
	ReasonHostName           Reason = "HostName"
	ReasonNameTaken          Reason = "NameTaken"
	ReasonMachineIDTaken     Reason = "MachineIDTaken"
	ReasonPreflight          Reason = "Preflight"
	ReasonNotApproved        Reason = "NotApproved"
	ReasonNotAvailable       Reason = "NotAvailable"
	ReasonNoHost             Reason = "NotFound"
	ReasonNoAddress          Reason = "NoAddress"
	ReasonOtherMachine       Reason = "OtherMachine"
	ReasonClaimed            Reason = "Claimed"
	ReasonNotReleased        Reason = "NotReleased"
	ReasonNotClean           Reason = "NotClean"
	ReasonServes             Reason = "Serves"
	ReasonLeft               Reason = "Left"
	ReasonInterrupted        Reason = "Interrupted"
	ReasonCommandFailed      Reason = "CommandFailed"
	ReasonLocalFile          Reason = "LocalFile"
	ReasonManagementRejected Reason = "ManagementCluster"
)

// Problem is why a machine is not what it should be, with what to do about it.
type Problem struct {
	Reason  Reason
	Message string
	// Remedy is what to do, mostly a command; empty when the message says it.
	Remedy string
	// Err is the cause; may be nil.
	Err error
}

// Error implements error.
func (p *Problem) Error() string { return p.Message }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

func problem(reason Reason, remedy, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Remedy: remedy, Message: fmt.Sprintf(format, args...)}
}
