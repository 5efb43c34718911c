package change

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// cleanUp bounds what a run does that was interrupted.
const cleanUp = 10 * time.Second

// place assigns the Host here and makes the one there, in this order: two Hosts with one key
// of which none is assigned count as clones of each other.
func (a *assignment) place(ctx context.Context) error {
	// The status of a host changes all the time, and with it the resourceVersion.
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return a.attempt(ctx) })
	if err == nil || !a.wrote {
		return err
	}
	if left := a.withdraw(ctx); left != nil {
		return fmt.Errorf("%w; %w", err, left)
	}
	return err
}

// attempt is one look at the Hosts, and what follows from it. Whoever changes the Host here
// meanwhile, as a claim does, makes it a conflict.
func (a *assignment) attempt(ctx context.Context) error {
	source, target, err := a.hosts(ctx)
	if err != nil {
		return err
	}
	if source == nil {
		return a.absent(target)
	}
	if err := refuse(source, target, a.To); err != nil {
		return err
	}
	a.uid, a.hostID = source.UID, source.Spec.HostID
	if target == nil {
		// Who may not make it leaves the Host here alone.
		if err := a.create(ctx, successor(source, a.To), client.DryRunAll); err != nil {
			return err
		}
	}
	if source.Spec.AssignedNamespace != a.To {
		assigned := source.DeepCopy()
		assigned.Spec.AssignedNamespace = a.To
		if err := a.Client.Patch(ctx, assigned, locked(source)); err != nil {
			return needs("patch", a.From, err)
		}
		a.wrote = true
	}
	if target != nil {
		return nil
	}
	return a.create(ctx, successor(source, a.To))
}

// locked is a patch of the Host as it was seen.
func locked(h *infrav1.Host) client.Patch {
	return client.MergeFromWithOptions(h, client.MergeFromWithOptimisticLock{})
}

// needs tells what it takes who may not do it: of several fields that take a verb, admission
// names but the first.
func needs(verb, namespace string, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("it takes the verbs %s and order on hosts in namespace %s: %w", verb, namespace, err)
}

func (a *assignment) create(ctx context.Context, h *infrav1.Host, options ...client.CreateOption) error {
	err := a.Client.Create(ctx, h, options...)
	switch {
	case apierrors.IsAlreadyExists(err):
		// Somebody was faster: whose it is has to be looked at.
		return apierrors.NewConflict(infrav1.GroupVersion.WithResource("hosts").GroupResource(), h.Name, err)
	case apierrors.IsNotFound(err):
		return noNamespace(a.To)
	}
	return needs("create", a.To, err)
}

// absent is for a Host that is not here: it was taken there already, or there is none.
func (a *assignment) absent(target *infrav1.Host) error {
	switch {
	case target == nil || target.Spec.HostID == "":
		return fmt.Errorf("there is no such host in namespace %s, nor is it in %s; `slipway host list -A` shows the hosts", a.From, a.To)
	case !arrived(target):
		return fmt.Errorf("there is no such host in namespace %s. There is a Host %s, whose agent is not connected: look at power, network and `systemctl status slipway-agent` of its machine%s",
			a.From, key(target), disconnected(target))
	}
	a.state = StateUnchanged
	return nil
}

// withdraw takes back an assignment of this run that leads to no Host. Another run may have
// made it meanwhile.
func (a *assignment) withdraw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	source, target, err := a.hosts(ctx)
	if err == nil {
		if source == nil || source.Spec.AssignedNamespace != a.To || target != nil && host.Successor(source, target) {
			return nil
		}
		stays := source.DeepCopy()
		stays.Spec.AssignedNamespace = ""
		err = a.Client.Patch(ctx, stays, locked(source))
	}
	if err != nil {
		return fmt.Errorf("the Host %s/%s stays assigned to namespace %s: the same command goes on, and `%s` takes it back: %w", a.From, a.name, a.To, takeBack(a.From, a.name), err)
	}
	return nil
}
