package expression

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
)

// ErrCost is wrapped by the error of an expression that cost more than its limit while
// it ran.
var ErrCost = errors.New("cost limit exceeded")

// Error is a fault of an expression.
type Error struct {
	// Line and Column are where it is, both counted from 1.
	Line, Column int
	// Message tells what is wrong.
	Message string
	// Err is the sentinel that it wraps, if any.
	Err error
}

// Error returns the position and the message.
func (e *Error) Error() string {
	if e.Line == 1 {
		return fmt.Sprintf("at character %d: %s", e.Column, e.Message)
	}
	return fmt.Sprintf("at line %d, character %d: %s", e.Line, e.Column, e.Message)
}

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// compileError is the first fault with its position; faults after it are often its
// consequence.
func compileError(issues *cel.Issues) error {
	found := issues.Errors()
	if len(found) == 0 {
		return &Error{Line: 1, Column: 1, Message: issues.Err().Error()}
	}
	first := found[0]
	line, column := max(first.Location.Line(), 1), max(first.Location.Column(), 0)+1
	// The container is an implementation's matter: there is none here.
	message := strings.ReplaceAll(first.Message, " (in container '')", "")
	return &Error{Line: line, Column: column, Message: message}
}

func (p *Program) evalError(err error, details *cel.EvalDetails) error {
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		message := "costs more than its limit"
		if details != nil && details.ActualCost() != nil {
			message = fmt.Sprintf("cost %d, more than its limit", *details.ActualCost())
		}
		return &Error{Line: 1, Column: 1, Message: message + "; loop over fewer objects", Err: ErrCost}
	}
	fault := &Error{Line: 1, Column: 1, Message: err.Error()}
	var located *types.Err
	if errors.As(err, &located) {
		at := p.ast.NativeRep().SourceInfo().GetStartLocation(located.NodeID())
		fault.Line, fault.Column = max(at.Line(), 1), max(at.Column(), 0)+1
	}
	return fault
}
