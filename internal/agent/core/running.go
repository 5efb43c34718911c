package core

import (
	"context"
	"fmt"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

const (
	// stepReboot is recorded, with the boot it was requested in, before the host goes down.
	stepReboot = "reboot"
	// rebootPatience is how long a host may take to end this process after it
	// agreed to reboot: it stops every service first.
	rebootPatience = 5 * time.Minute
)

// upgrade brings a node that runs to another Kubernetes version.
func (l *Loop) upgrade(ctx context.Context, spec *infrav1.HostSpec) error {
	err := l.supervised(ctx, func(ctx context.Context) error {
		if err := l.install(ctx, spec); err != nil {
			return err
		}
		return l.Executor.Upgrade(ctx, operation.Upgrade{Version: spec.Desired.Version}, progress{l})
	})
	return l.conclude(ctx, err, func(s *journal.State) { succeed(s, l.Now()) })
}

// reboot reboots the host. The proof is that the boot is another one than when the last
// step was recorded, however that came about: nothing is recorded once it is.
func (l *Loop) reboot(ctx context.Context, spec *infrav1.HostSpec) error {
	err := l.supervised(ctx, func(ctx context.Context) error {
		began := l.Journal.State().Operation.StepBootID
		switch {
		case l.BootID == "":
			return &operation.Error{Reason: operation.ReasonBootIDUnknown, Retry: operation.RetryNever,
				Message: "this host does not tell its boot ID (/proc/sys/kernel/random/boot_id), so a reboot could not be proved; reboot it by hand"}
		case began != "" && began != l.BootID:
			return l.Executor.Rebooted(ctx, l.BootID, progress{l})
		default:
			return l.Executor.PrepareReboot(ctx, spec.Desired.RebootPolicy == infrav1.RebootDrain, progress{l}, l.goDown)
		}
	})
	return l.conclude(ctx, err, func(s *journal.State) { succeed(s, l.Now()) })
}

// goDown ends with the host; what it returns is why the host is still there.
func (l *Loop) goDown(ctx context.Context) error {
	if err := (progress{l}).Begin(stepReboot); err != nil {
		return err
	}
	l.Log.Warn("rebooting the host")
	if err := l.Executor.Reboot(ctx); err != nil {
		return operation.Failf(operation.ReasonNotRebooted, operation.RetryAfterReset, err, "ask the host to reboot")
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.After(rebootPatience):
	}
	return &operation.Error{Reason: operation.ReasonNotRebooted, Retry: operation.RetryAfterReset, Message: fmt.Sprintf(
		"the host agreed to reboot but is still up after %s; see `systemctl list-jobs` on it", rebootPatience)}
}
