package handover

import (
	"bytes"
	"context"
	"fmt"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
	"github.com/slipway-dev/slipway/internal/host"
)

// prepare brings the hand-over that is kept in line with what the management cluster
// announces, and answers. An agent that was away when the move took place finds that
// its Host is gone, and looks for a hand-over by itself.
func (k *Keeper) prepare(ctx context.Context) {
	if err := k.learn(); err != nil {
		k.options.Log.Error("cannot keep what is known of hand-overs, trying again", "err", err)
		return
	}
	if err := k.note(); err != nil {
		k.options.Log.Error("cannot keep whether this management cluster let the host go, trying again", "err", err)
	}
	k.mu.Lock()
	heard, announced, gone, prepared := k.heard, k.announced, k.released(), k.state.Prepared
	k.mu.Unlock()
	switch {
	case gone:
		// There may be a newer one, and nobody announces it any more.
		k.fetch(ctx, announced)
	case announced == "":
		if heard {
			k.answer("")
		}
	case prepared != nil && prepared.Revision() == announced && !prepared.Expired(time.Now()):
		k.confirm(ctx, *prepared)
	default:
		k.fetch(ctx, announced)
	}
}

// note keeps that the management cluster let the host go, or that it shows it again. What it
// only denied is not kept.
func (k *Keeper) note() error {
	k.mu.Lock()
	gone, known := k.gone, k.gone || k.shown
	same := gone == k.state.LetGo
	k.mu.Unlock()
	if !known || same {
		return nil
	}
	return k.remember(func(s *state) { s.LetGo = gone })
}

// learn keeps who signs, while the management cluster serves the host, and forgets a
// hand-over that it called off.
func (k *Keeper) learn() error {
	k.mu.Lock()
	heard, signer, known := k.heard, k.signer, k.state
	off := !k.gone && k.announced == "" && known.Prepared != nil
	k.mu.Unlock()
	if !heard {
		return nil
	}
	if !off && (signer == nil || bytes.Equal(signer, known.Signer)) {
		return nil
	}
	if off {
		k.options.Log.Info("the hand-over was called off", "revision", known.Prepared.Revision())
	}
	return k.remember(func(s *state) {
		if signer != nil {
			s.Signer = signer
		}
		if off {
			s.Prepared = nil
		}
	})
}

// read returns the hand-over in the Secret.
func (k *Keeper) read(ctx context.Context) (host.HandOver, error) {
	secret, err := k.options.Secrets.GetSecret(ctx, k.options.Namespace, infrav1.HandOverSecretName)
	if err != nil {
		return host.HandOver{}, fmt.Errorf("read Secret %s: %w", infrav1.HandOverSecretName, err)
	}
	return host.ReadHandOver(secret.Data), nil
}

// fetch reads, verifies and keeps a hand-over. One that has ended is kept as well: a signed end
// that was brought forward replaces the later one.
func (k *Keeper) fetch(ctx context.Context, announced string) {
	o := k.options
	handOver, err := k.read(ctx)
	if err != nil {
		k.waiting(announced, err)
		return
	}
	if handOver.ByHand() {
		return
	}
	k.mu.Lock()
	known := k.state
	k.mu.Unlock()
	same := known.Prepared != nil && known.Prepared.Revision() == handOver.Revision()
	if same {
		handOver = *known.Prepared // its end was verified
	} else if err := handOver.Verify(known.Signer, o.Namespace); err != nil {
		k.waiting(handOver.Revision(), fmt.Errorf("the hand-over in Secret %s: %w", infrav1.HandOverSecretName, err))
		return
	} else if err := k.remember(func(s *state) { s.Prepared = &handOver }); err != nil {
		k.waiting(handOver.Revision(), fmt.Errorf("keep the hand-over: %w", err))
		return
	}
	switch {
	case handOver.Expired(time.Now()):
		k.waiting(handOver.Revision(), fmt.Errorf("the hand-over in Secret %s ended at %s by the clock of this host", infrav1.HandOverSecretName, handOver.Expires.Format(time.RFC3339)))
	case !same:
		k.confirm(ctx, handOver)
	}
}

// confirm makes sure that the other management cluster is within reach, and accepts the
// token, and says that the agent is ready. It looks again and again until the move.
func (k *Keeper) confirm(ctx context.Context, handOver host.HandOver) {
	ready := host.HandOverReport{Revision: handOver.Revision()}.String()
	if k.Report() == ready && time.Since(k.probed) < probeEvery {
		return
	}
	target, err := host.ParseTarget(handOver.Kubeconfig)
	if err == nil {
		err = enroll.Probe(ctx, target)
	}
	if err != nil {
		k.waiting(handOver.Revision(), err)
		return
	}
	k.probed = time.Now()
	if k.Report() != ready {
		k.options.Log.Info("ready to be handed over", "server", target.Server, "revision", handOver.Revision())
	}
	k.answer(ready)
}

func (k *Keeper) waiting(revision string, why error) {
	report := host.HandOverReport{Revision: revision, Waiting: why.Error()}.String()
	if revision != "" && report != k.Report() {
		k.options.Log.Warn("cannot prepare the hand-over, trying again", "why", why)
	}
	if revision != "" {
		k.answer(report)
	}
}
