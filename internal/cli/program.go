package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/management"
)

// Program is what a program adds to the commands that it shares with others.
type Program struct {
	// Name of the executable; PluginName is called as `kubectl slipway`.
	Name string
	// Long is the help of the program itself.
	Long string
	// Kubernetes is the version of the kube-apiserver in it; empty without one.
	Kubernetes string
	// Local finds the plane of this machine; nil in a program that knows no planes.
	Local Local
	// Commands makes what goes beside the commands there are; nil for nothing. It is called
	// after the flags that packages of Kubernetes register for every program are gone.
	Commands func() Commands
}

// Commands are what one program has alone.
type Commands struct {
	// Use and More are groups of the help, Host goes below `host`.
	Use, More, Host []*cobra.Command
}

// Local finds the plane of this machine that a command line means.
type Local interface {
	// Plane opens it; a *management.NoPlaneError when there is none.
	Plane() (management.Plane, error)
	// Named says whether the user named it, as against a default.
	Named(cmd *cobra.Command) bool
}

// Main runs a program until it ends or is interrupted, and returns its exit code.
func Main(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends it at once, whatever it is doing.
	context.AfterFunc(ctx, stop)
	err := root.ExecuteContext(ctx)
	stop()
	code, silent := ExitCode(err)
	if !silent {
		// What a cluster answered is part of it.
		_ = display.WriteVisible(os.Stderr, fmt.Sprintf("Error: %v\n", err))
	}
	return code
}

// ExitError ends the program with the code of a check that found something, or of a
// command that ran inside a host; it has nothing to say itself.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

// ExitCode is what the process ends with for an error of a command, and whether
// there is nothing to say about it.
func ExitCode(err error) (code int, silent bool) {
	var exit *ExitError
	switch {
	case err == nil:
		return 0, true
	case errors.As(err, &exit):
		return exit.Code, true
	}
	return 1, false
}
