package provision

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/answer"
	"github.com/slipway-dev/slipway/internal/enroll"
	"github.com/slipway-dev/slipway/internal/host"
)

func (r *removal) key() client.ObjectKey {
	return client.ObjectKey{Namespace: r.Namespace, Name: r.departure.Name}
}

// get returns the Host that was found, nil once it is gone. One of the same name that was
// made since is another machine's.
func (r *removal) get(ctx context.Context) (*infrav1.Host, error) {
	h := &infrav1.Host{}
	err := r.Client.Get(ctx, r.key(), h)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case r.host != nil && h.UID != r.host.UID:
		return nil, problem(ReasonOtherMachine, "look at it, and run the command again", "the Host %s was deleted meanwhile, and another one made", r.key())
	}
	return h, nil
}

// find looks for the Host, and where its machine is.
func (r *removal) find(ctx context.Context) (err error) {
	if r.host, err = r.get(ctx); err != nil {
		return err
	}
	switch {
	case r.host == nil && (r.Detach || r.result.Address == ""):
		return problem(ReasonNoHost, "if its machine may have the agent still: --ssh "+r.departure.Name+"=[USER@]ADDRESS; `slipway host list` shows the hosts",
			"there is no Host %s", r.key())
	case r.Detach, r.result.Address != "":
		return nil
	}
	if r.result.Address = addressOf(r.host); r.result.Address == "" {
		return problem(ReasonNoAddress, "give it with --ssh "+r.departure.Name+"=[USER@]ADDRESS, or leave the machine as it is with --no-ssh",
			"the Host %s does not say where its machine is: no agent has reported", r.key())
	}
	return nil
}

// cordon keeps the host from being claimed: from the write on that it returns from, nobody
// who read the Host before it can claim it.
func (r *removal) cordon(ctx context.Context) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		h, err := r.get(ctx)
		if err != nil || h == nil {
			return err
		}
		if err := r.mayEmpty(ctx, h); err != nil {
			return err
		}
		before := h.DeepCopy()
		if r.Evacuate {
			h.Spec.Evacuate = ptr.To(true)
		} else if !ptr.Deref(h.Spec.Evacuate, false) {
			h.Spec.Unschedulable = ptr.To(true)
		}
		r.host = h
		if equality.Semantic.DeepEqual(before, h) {
			return nil
		}
		return r.Client.Patch(ctx, h, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

// mayEmpty refuses a host that a machine has, or had without a reset, and that nobody said
// to empty.
func (r *removal) mayEmpty(ctx context.Context, h *infrav1.Host) error {
	if h.Spec.Claim == nil || r.Evacuate || ptr.Deref(h.Spec.Evacuate, false) || host.Releasing(h) {
		return nil
	}
	t, err := r.tenant(ctx, h)
	switch {
	case err != nil || t == host.TenantLeaves:
		return err
	case t == host.TenantGone:
		return r.orphaned(ctx, h)
	}
	return problem(ReasonClaimed, "--evacuate empties it first: a pool replaces its machine within its strategy, of others delete the Machine; nothing was changed",
		"HostMachine %s of Cluster %s has the host %s", h.Spec.Claim.MachineName, h.Spec.Claim.ClusterName, r.key())
}

// tenant reads what is known of the machine that has claimed a host.
func (r *removal) tenant(ctx context.Context, h *infrav1.Host) (host.Tenant, error) {
	m := &infrav1.HostMachine{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Spec.Claim.MachineName}, m)
	if apierrors.IsNotFound(err) {
		return host.TenantGone, nil
	}
	return host.TenantOf(h, m), err
}

// evacuate waits until no machine has the host. Of a machine that nobody replaces it says
// what to delete, and does not delete it: whose it is, is not for this command to know.
func (r *removal) evacuate(ctx context.Context) error {
	return r.await(ctx, "still has its machine", func(ctx context.Context, h *infrav1.Host) (bool, error) {
		if h.Spec.Claim == nil {
			return true, nil
		}
		t, err := r.tenant(ctx, h)
		if err != nil {
			return false, err
		}
		switch {
		case t == host.TenantGone && r.Detach && host.Disconnected(h):
			return true, nil // nobody proves that it is clean, and nobody claims it
		case t == host.TenantGone && !host.Releasing(h):
			return false, r.orphaned(ctx, h)
		case t == host.TenantStays && !host.Releasing(h):
			return false, problem(ReasonClaimed, fmt.Sprintf("delete the Machine that owns it, then run the same command again: kubectl -n %s get hostmachine %s -o jsonpath='{.metadata.ownerReferences[*].name}'", h.Namespace, h.Spec.Claim.MachineName),
				"HostMachine %s of Cluster %s has the host %s, and no pool replaces it", h.Spec.Claim.MachineName, h.Spec.Claim.ClusterName, r.key())
		}
		return false, quarantined(h)
	})
}

// orphaned refuses a host whose machine is gone, unless that requested the reset, and went,
// since the Host was read.
func (r *removal) orphaned(ctx context.Context, h *infrav1.Host) error {
	if again, err := r.get(ctx); err != nil || again == nil || again.Spec.Claim == nil || host.Releasing(again) {
		return err
	}
	remedy := fmt.Sprintf("once you know that nothing of it is needed: kubectl -n %s annotate host %s %s=%s", h.Namespace, h.Name, infrav1.ReleaseOrphanAnnotation, h.Spec.Claim.ClaimID)
	if r.Detach && !r.Evacuate {
		remedy += "; of a machine that is dead, --no-ssh --evacuate removes the Host"
	}
	return problem(ReasonNotClean, remedy, "HostMachine %s, which has the host %s, is gone and did not request its reset", h.Spec.Claim.MachineName, r.key())
}

func quarantined(h *infrav1.Host) error {
	if s := host.StateOf(h); s.Quarantined() {
		return problem(ReasonNotClean, "the same command goes on once it is clean", "the host %s is not clean: %s", client.ObjectKeyFromObject(h), s.Message)
	}
	return nil
}

// awaitClean waits for the proof that the host is clean of its last claim. A host that
// never was claimed has nothing to prove here: the agent looks before it goes.
func (r *removal) awaitClean(ctx context.Context) error {
	return r.await(ctx, "is not proved clean", func(_ context.Context, h *infrav1.Host) (bool, error) {
		switch {
		case h.Spec.ClaimGeneration == 0, r.Detach && host.Disconnected(h):
			return true, nil
		case h.Spec.Claim == nil && host.ProvedClean(h):
			return !host.HookPending(h), nil
		}
		return false, quarantined(h)
	})
}

// await looks at the Host until done or gone. An API server that is away for a moment is
// waited for.
func (r *removal) await(ctx context.Context, what string, done func(context.Context, *infrav1.Host) (bool, error)) error {
	var last *infrav1.Host
	err := wait.PollUntilContextCancel(ctx, lookEvery, true, func(ctx context.Context) (bool, error) {
		h, err := r.get(ctx)
		if err == nil && h == nil {
			return true, nil
		}
		if err == nil {
			last = h
			var is bool
			if is, err = done(ctx, h); err == nil {
				return is, nil
			}
		}
		if transient(err) {
			return false, nil
		}
		return false, err
	})
	if err == nil || ctx.Err() == nil || last == nil {
		return err
	}
	p := problem(ReasonNotReleased, fmt.Sprintf("kubectl -n %s describe host %s; the same command goes on, --timeout gives it longer", r.Namespace, r.departure.Name),
		"the host %s %s after %s: it is %s%s", r.key(), what, r.course.Timeout, host.StateOf(last).Phase, why(last))
	p.Err = err
	return p
}

// transient says whether an error of the management cluster may be gone at the next look.
func transient(err error) bool {
	var p *Problem
	return !errors.As(err, &p) && answer.Passing(err)
}

// forget deletes what lets a machine enroll as the host, and the Host.
func (r *removal) forget(ctx context.Context) error {
	if err := enroll.DeleteBound(ctx, r.Client, r.Namespace, r.departure.Name); err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	if err := r.Client.Delete(ctx, r.host, client.Preconditions{UID: &r.host.UID}); client.IgnoreNotFound(err) != nil {
		return err
	}
	return r.await(ctx, "is deleted and still there; does its manager run?", func(context.Context, *infrav1.Host) (bool, error) { return false, nil })
}
