package component

import (
	"context"
	"fmt"
)

// Component is one part of the plane. A Group calls Init, Start, then Ready until it returns nil, and at
// the end Run.Stop, all from one goroutine. A nil function has nothing to do. Every function returns
// early with ctx.Err() when ctx ends.
type Component struct {
	// Name identifies the component in events, errors and status: lower case, unique within a
	// Group.
	Name string

	// Init brings the component's state on disk into shape: directories, files, migrations. It is
	// idempotent, since any earlier run may have been cut off anywhere, and leaves nothing running.
	Init func(ctx context.Context) error

	// Start launches the component and returns without waiting until it serves. What it launches
	// outlives ctx, which bounds the call only, and ends with Run.Stop.
	Start func(ctx context.Context) error

	// Ready returns nil once the component serves, otherwise an error that says what is being
	// waited for, in words meant for a user. It returns quickly and has no side effects.
	Ready func(ctx context.Context) error

	// Run is what Start launches; nil for a component that leaves nothing running.
	Run Running
}

// Running is what a component launched; a Task is one. A Group fails with an [ExitError] when it ends
// before Stop was called.
type Running interface {
	// Done is closed when it has ended. It is valid after Start.
	Done() <-chan struct{}

	// Err returns why it ended. It is valid after Done is closed.
	Err() error

	// Stop ends it and returns when nothing of it runs any more, or when ctx ends. It may be
	// called after a failed Start, and more than once.
	Stop(ctx context.Context) error
}

// Check calls Ready.
func (c Component) Check(ctx context.Context) error { return call(ctx, c.Ready) }

func call(ctx context.Context, f func(context.Context) error) error {
	if f == nil {
		return nil
	}
	return f(ctx)
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
