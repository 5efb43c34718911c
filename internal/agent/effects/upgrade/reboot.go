package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/host"
)

// forReboot is what CordonAnnotation has during a reboot.
const forReboot = "reboot"

// Reboot drains the Node, if that is requested, and calls goDown, which ends with the host. It may be
// repeated at any point of the same boot. What fails for good gives the Node back.
func (u Upgrader) Reboot(ctx context.Context, drain bool, progress operation.Progress, goDown func(context.Context) error) error {
	if !drain && !progress.State().Cordoned {
		return goDown(ctx)
	}
	node, err := u.Connect()
	if err != nil {
		return operation.Failf(operation.ReasonNodeUnreachable, operation.RetryAfterReset, err, "reach the Node of this host")
	}
	if drain {
		err = u.drainForReboot(ctx, node, progress)
	}
	if err == nil {
		err = goDown(ctx)
	}
	failed := operation.AsError(err)
	if failed.Retry == operation.RetryLater || ctx.Err() != nil || !progress.State().Cordoned {
		return err
	}
	undo, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	if err := u.endCordon(undo, node, progress); err != nil {
		failed.Message += fmt.Sprintf("; the Node is left cordoned: uncordon it with kubectl (%v)", err)
		failed.Err = errors.Join(failed.Err, err)
	}
	return failed
}

func (u Upgrader) drainForReboot(ctx context.Context, node Node, progress operation.Progress) error {
	if _, err := node.Get(ctx); apierrors.IsNotFound(err) {
		return nil // there is nothing to drain, and the kubelet makes the Node anew
	} else if err != nil {
		return operation.Unreachable(err, "read the Node of this host")
	}
	controlPlane := u.hasControlPlane(progress.State())
	for _, s := range []struct {
		name string
		run  func() error
	}{
		{"reboot: check", func() error { return u.mayBeAway(ctx, controlPlane) }},
		{"reboot: cordon", func() error {
			if err := progress.Update(func(s *journal.State) { s.Cordoned = true }); err != nil {
				return err
			}
			return u.cordon(ctx, node, forReboot)
		}},
		{"reboot: drain", func() error { return u.drain(ctx, node, progress) }},
		// A drain takes long enough for another member to fail.
		{"reboot: check again", func() error { return u.mayBeAway(ctx, controlPlane) }},
	} {
		if err := operation.Step(progress, s.name, s.run); err != nil {
			return err
		}
	}
	if controlPlane {
		u.HandOver(ctx)
	}
	return progress.Update(func(s *journal.State) { s.Operation.Reason, s.Operation.Message = "", "" })
}

// mayBeAway refuses a control plane whose etcd has no quorum without this host, and waits for one of
// which a member is not healthy. Where etcd runs elsewhere it says nothing.
func (u Upgrader) mayBeAway(ctx context.Context, controlPlane bool) error {
	if _, err := os.Stat(u.Root.Path(manifestPath(etcd))); !controlPlane || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	manifest, err := u.manifest(etcd)
	if err != nil {
		return err
	}
	member, err := u.ConnectEtcd(manifest)
	if err != nil {
		return operation.Failf(operation.ReasonControlPlaneWaits, operation.RetryAfterReset, err, "reach the etcd of this host")
	}
	members, err := healthyMembers(ctx, member)
	if err == nil && members < host.FewestControlPlanes {
		return &operation.Error{Reason: operation.ReasonControlPlaneHost, Retry: operation.RetryNever, Message: fmt.Sprintf(
			"etcd has %d members, and with fewer than %d none may be away; a reboot without a drain is carried out, and the cluster has no API server meanwhile", members, host.FewestControlPlanes)}
	}
	return err
}

// Rebooted uncordons the Node that Reboot cordoned, once the kubelet of this boot reports it ready. One
// that does not in time fails the reboot; its Node is uncordoned all the same, since the scheduler leaves
// it alone until it is ready.
func (u Upgrader) Rebooted(ctx context.Context, bootID string, progress operation.Progress) error {
	if !progress.State().Cordoned {
		return nil
	}
	node, err := u.Connect()
	if err != nil {
		return operation.Failf(operation.ReasonNodeUnreachable, operation.RetryAfterReset, err, "reach the Node of this host")
	}
	if err := progress.Update(func(s *journal.State) {
		s.Operation.Message = "the host has rebooted; waiting until its kubelet reports the Node ready"
	}); err != nil {
		return err
	}
	late := u.await(ctx, func() error {
		current, err := node.Get(ctx)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return operation.Unreachable(err, "read the Node of this host")
		}
		return notReadySince(current, bootID)
	})
	if ctx.Err() != nil {
		return late
	}
	if err := u.endCordon(ctx, node, progress); err != nil {
		return err
	}
	return late
}

func notReadySince(node *corev1.Node, bootID string) error {
	why := "its kubelet has not reported since the reboot"
	if node.Status.NodeInfo.BootID == bootID {
		for _, c := range node.Status.Conditions {
			if c.Type != corev1.NodeReady {
				continue
			}
			if c.Status == corev1.ConditionTrue {
				return nil
			}
			why = c.Message
		}
	}
	return &operation.Error{Reason: operation.ReasonNodeNotReady, Retry: operation.RetryNever, Message: fmt.Sprintf(
		"the host has rebooted, and its Node is not ready %s later: %.200s; see the log of the kubelet on the host", readyTimeout, why)}
}

// endCordon uncordons the Node if the agent cordoned it. One that is gone took the cordon along.
func (u Upgrader) endCordon(ctx context.Context, node Node, progress operation.Progress) error {
	if err := u.uncordon(ctx, node); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return progress.Update(func(s *journal.State) { s.Cordoned = false })
}
