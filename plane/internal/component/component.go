package component

import (
	"context"
	"fmt"
)

// Component is one part of the plane. A Group calls Init, Start, then Ready
// until it returns nil, and at the end Stop, all from one goroutine. Every
// method returns early with ctx.Err() when ctx ends.
type Component interface {
	// Name identifies the component in events, errors and status: lower case,
	// unique within a Group, constant.
	Name() string

	// Init brings the component's state on disk into shape: directories,
	// files, migrations. It is idempotent, since any earlier run may have been
	// cut off anywhere, and leaves nothing running.
	Init(ctx context.Context) error

	// Start launches the component and returns without waiting until it
	// serves. What it launches outlives ctx, which bounds the call only, and
	// ends with Stop. When Start fails nothing of it is left running.
	Start(ctx context.Context) error

	// Ready returns nil once the component serves, otherwise an error that
	// says what is being waited for, in words meant for a user. It returns
	// quickly and has no side effects.
	Ready(ctx context.Context) error

	// Stop ends the component and returns when nothing of it runs any more, or
	// when ctx ends. It may be called after a failed Start, and more than once.
	Stop(ctx context.Context) error
}

// Mortal is a Component that can end by itself. A Group fails with an
// [ExitError] when that happens before Stop was called.
type Mortal interface {
	Component

	// Done is closed when the component has ended. It is valid after Start.
	Done() <-chan struct{}

	// Err returns why the component ended. It is valid after Done is closed.
	Err() error
}

// StartError says which component did not come up, and in which phase.
type StartError struct {
	Component string
	Phase     Phase
	Err       error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("%s: %s: %v", e.Component, e.Phase, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

// ExitError says that a component ended although nobody had asked it to.
type ExitError struct {
	Component string
	// Err is nil when the component ended without saying why.
	Err error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return e.Component + ": ended unexpectedly"
	}
	return fmt.Sprintf("%s: ended unexpectedly: %v", e.Component, e.Err)
}

func (e *ExitError) Unwrap() error { return e.Err }
