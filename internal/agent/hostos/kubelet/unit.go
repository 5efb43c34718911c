package kubelet

import (
	"context"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
)

// Error is a state of the host with which an operation cannot go on; operation.AsError takes the
// reason and the message, which names the remedy. Permanent says that the same operation fails again.
type Error struct {
	Reason, Message string
	Permanent       bool
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// OperationReason returns the reason of the failed operation, and whether it fails again.
func (e *Error) OperationReason() (string, bool) { return e.Reason, e.Permanent }

// Unit is what systemd does with kubelet.service at boot.
type Unit struct{ Runner command.Runner }

// StartsAtBoot is false when systemd was told not to start the kubelet. kubeadm only
// warns of that, and the node does not come back after a power cut.
func (u Unit) StartsAtBoot(ctx context.Context) (bool, error) {
	if !u.Runner.Has("systemctl") {
		return true, nil
	}
	// It fails, too, for what it answers.
	out, _ := u.Runner.Run(ctx, "systemctl", "is-enabled", "kubelet")
	switch state := strings.TrimSpace(string(out)); state {
	case "disabled", "enabled-runtime":
		return false, nil
	case "masked", "masked-runtime":
		return false, &Error{Reason: "KubeletMasked",
			Message: "kubelet.service is masked, so systemd never starts the kubelet; run `systemctl unmask kubelet` on the host"}
	default:
		return true, ctx.Err()
	}
}

// Enable has systemd start the kubelet at each boot; Disable takes that back.
func (u Unit) Enable(ctx context.Context) error {
	_, err := u.Runner.Run(ctx, "systemctl", "enable", "kubelet")
	return err
}

// Disable is the opposite of Enable.
func (u Unit) Disable(ctx context.Context) error {
	_, err := u.Runner.Run(ctx, "systemctl", "disable", "kubelet")
	return err
}
