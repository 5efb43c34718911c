package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/service"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// notifySocket is where systemd names the socket on which it is told of readiness.
const notifySocket = "NOTIFY_SOCKET"

// starter is who started `slipway serve`: `slipway up`, systemd by the unit of `slipway
// install`, or neither.
type starter struct {
	up, systemd bool
	// socket of systemd, empty for none.
	socket string
}

// startedBy reads that from the environment and takes it out: what is run from here was
// started by neither, and kube-apiserver would tell systemd that all is ready as soon as it
// is itself.
func startedBy() (starter, error) {
	var by starter
	_, by.up = os.LookupEnv(statedir.LockFDEnv)
	_, by.systemd = os.LookupEnv(service.Env)
	by.socket = os.Getenv(notifySocket)
	return by, errors.Join(os.Unsetenv(statedir.LockFDEnv), os.Unsetenv(service.Env), os.Unsetenv(notifySocket))
}

// ready tells systemd, if it asked, that all components are.
func (by starter) ready() error {
	if by.socket == "" {
		return nil
	}
	if err := os.Setenv(notifySocket, by.socket); err != nil {
		return err
	}
	if _, err := daemon.SdNotify(true, daemon.SdNotifyReady); err != nil {
		return fmt.Errorf("tell systemd that the plane is ready: %w", err)
	}
	return nil
}

// acquireChosen opens the plane as it was chosen before, for a service: systemd starts it at
// any time, also while `slipway up` is at work, which then holds the lock and waits for it.
func acquireChosen(_ context.Context, g *global) (*instance.Instance, *instance.Lock, error) {
	inst, err := g.open()
	if err != nil {
		return nil, nil, err
	}
	lock, err := inst.Lock()
	var locked *instance.LockedError
	if errors.As(err, &locked) && locked.LetsPlaneIn {
		return inst, instance.Inherited(nil), nil
	}
	if err != nil {
		return nil, nil, err
	}
	if err := inst.Own(); err != nil {
		lock.Release()
		return nil, nil, err
	}
	return inst, lock, nil
}

// acquireSupervised opens the plane as it was chosen before, for a supervisor, which starts it at any time and
// holds the lock of the state directory: no other command's lock is in its way.
func acquireSupervised(_ context.Context, g *global) (*instance.Instance, *instance.Lock, error) {
	inst, err := g.open()
	return inst, instance.Inherited(nil), err
}

// supervisorsLock is the lock of the state directory that a supervisor passes on; nil when none did.
func supervisorsLock() (*os.File, error) {
	value, ok := os.LookupEnv(statedir.LockFDEnv)
	if !ok {
		return nil, nil
	}
	fd, err := strconv.Atoi(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", statedir.LockFDEnv, err)
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), stateLock), nil
}
