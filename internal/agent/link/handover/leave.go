package handover

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"k8s.io/client-go/rest"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/link/kube"
	"github.com/slipway-dev/slipway/internal/host"
)

// attempt bounds one try to go: after it, the agent looks whether the hand-over is
// another one by now. Likewise a Follower looks at its Host. The requests it has filed there stand.
const attempt = 2 * time.Minute

// leave goes to the other management cluster as soon as the host is there. It returns
// false when this one serves the host again, or when something went wrong.
func (k *Keeper) leave(ctx context.Context) bool {
	handOver, served := k.abandoned()
	if handOver == nil {
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
	k.options.Log.Info("this management cluster does not serve the host any more, asking the one it is handed over to", "revision", handOver.Revision())
	transfer, err := k.options.Session.Transfer(ctx, handOver.Kubeconfig, "hand-over "+handOver.Revision())
	if err != nil {
		return k.stays(ctx, err)
	}
	defer transfer.Close()
	if err := k.settle(ctx, transfer); err != nil {
		return k.stays(ctx, err)
	}
	if err := k.remember(func(s *state) { *s = state{} }); err != nil {
		k.options.Log.Error("cannot forget the hand-over that is done", "err", err)
	}
	k.options.Log.Info("handed over to another management cluster", "revision", handOver.Revision())
	return true
}

// identity is what the agent has in the other management cluster; see enroll.Transfer.
type identity interface {
	Config() *rest.Config
	Commit() error
}

// errMeanwhile means that what let the agent go does not hold any more.
var errMeanwhile = errors.New("this management cluster answers again, or an operation has begun")

// settle makes the other management cluster that of the host once the host is there. What
// was right when it was asked may be otherwise by its answer: this one may serve the host
// again, or an operation have begun.
func (k *Keeper) settle(ctx context.Context, other identity) error {
	there, err := k.recognize(ctx, other.Config())
	if err != nil {
		return err
	}
	may, err := k.mayGo(there)
	if due, _ := k.abandoned(); err == nil && (!may || due == nil) {
		err = errMeanwhile
	}
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		return err
	}
	// In this order: prepared twice is harmless, and the next cluster has its own signer.
	return other.Commit()
}

func (k *Keeper) stays(ctx context.Context, err error) bool {
	if ctx.Err() == nil {
		k.options.Log.Warn("cannot go to the other management cluster, trying again", "err", err)
	}
	return false
}

// recognize waits until the other management cluster shows the host to this agent, that
// it is the same, that it may come, and that nothing is at work here. The right to see it
// comes once the move has ended: until then its Cluster is paused.
func (k *Keeper) recognize(ctx context.Context, config *rest.Config) (*infrav1.Host, error) {
	client, err := kube.New(config)
	if err != nil {
		return nil, err
	}
	for {
		there, err := client.GetHost(ctx, k.options.Namespace, k.options.HostName)
		if err == nil {
			if may, err := k.mayGo(there); err != nil || may {
				return there, err
			}
			if !k.letGo() && k.tell() {
				k.options.Log.Warn("the management cluster that serves this host does not answer, and did not let go of it. If it is gone for good, say so on the Host in the other one",
					"annotation", infrav1.RestoredAnnotation+"="+string(there.UID))
			}
		} else {
			k.options.Log.Debug("the other management cluster does not show the host yet", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-k.wake:
		case <-time.After(k.again()):
		}
	}
}

// again is when the other management cluster is asked next. The end of a move is waited for;
// an operator's word may take days, with all hosts of the source in wait for it.
func (k *Keeper) again() time.Duration {
	if k.letGo() {
		return retryEvery / 5
	}
	return k.options.Patience/8 + rand.N(k.options.Patience/8+1)
}

// tell says whether the operator is still to be told what the agent waits for.
func (k *Keeper) tell() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	told := k.told
	k.told = true
	return !told
}

// mayGo judges the Host in the other management cluster. Of one that does not answer nobody
// knows whether it lives, and commands the host again in a minute: the Host there may be the
// copy of a backup. So the agent stays until it was let go, or an operator says that the
// copy is all there is.
func (k *Keeper) mayGo(there *infrav1.Host) (bool, error) {
	generation, busy := k.options.Progress()
	if err := host.Recognize(there, k.options.HostID, generation); err != nil {
		return false, err
	}
	return !busy && (k.letGo() || host.Restored(there)), nil
}
