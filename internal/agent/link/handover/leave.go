package handover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
	"github.com/slipway-dev/slipway/internal/agent/link/kube"
)

// attempt bounds one try to go: after it, the agent looks whether the hand-over is
// another one by now. The request it has filed there stands.
const attempt = 2 * time.Minute

// leave goes to the other management cluster as soon as the host is there. It returns
// false when this one serves the host again, or when something went wrong.
func (k *Keeper) leave(ctx context.Context) bool {
	order, served := k.abandoned()
	if order == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	go func() {
		select {
		case <-ctx.Done():
		case <-served:
			cancel()
		}
	}()
	k.options.Log.Info("this management cluster does not serve the host any more, asking the one it is handed over to", "revision", order.Revision())
	transfer, err := k.options.Session.Transfer(ctx, order.Kubeconfig, "hand-over "+order.Revision())
	if err != nil {
		return k.stays(ctx, err)
	}
	defer transfer.Close()
	if err := k.recognize(ctx, transfer); err != nil {
		return k.stays(ctx, err)
	}
	// In this order: prepared twice is harmless, and the next cluster has its own signer.
	if err := transfer.Commit(); err != nil {
		return k.stays(ctx, err)
	}
	if err := k.remember(func(s *state) { *s = state{} }); err != nil {
		k.options.Log.Error("cannot forget the hand-over that is done", "error", err)
	}
	k.options.Log.Info("handed over to another management cluster", "revision", order.Revision())
	return true
}

func (k *Keeper) stays(ctx context.Context, err error) bool {
	if ctx.Err() == nil {
		k.options.Log.Warn("cannot go to the other management cluster, trying again", "error", err)
	}
	return false
}

// errOtherHost means that the name of the host belongs to another machine there.
var errOtherHost = errors.New("the Host there is of another machine")

// recognize waits until the other management cluster shows the host to this agent, that
// it is the same, and that nothing is at work here. The right to see it comes once the
// move has ended: until then its Cluster is paused.
func (k *Keeper) recognize(ctx context.Context, transfer *enroll.Transfer) error {
	client, err := kube.New(transfer.Config())
	if err != nil {
		return err
	}
	for {
		there, err := client.GetHost(ctx, k.options.Namespace, k.options.HostName)
		generation, busy := k.options.Progress()
		switch {
		case err != nil:
			k.options.Log.Debug("the other management cluster does not show the host yet", "error", err)
		case there.Spec.HostID != k.options.HostID:
			return fmt.Errorf("%w: its hostID is %s", errOtherHost, there.Spec.HostID)
		case there.Spec.ClaimGeneration < generation:
			return fmt.Errorf("the Host there is of an earlier time: claim generation %d, and this host has served %d", there.Spec.ClaimGeneration, generation)
		case !busy:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(retryEvery / 5):
		}
	}
}
