package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/answer"
	"github.com/slipway-dev/slipway/internal/host"
)

// lookEvery is the time between two looks at Hosts that are waited for.
const lookEvery = time.Second

// follow waits until each host is there and its Host here is gone. Those that are not by
// then keep their assignment.
func follow(ctx context.Context, timeout time.Duration, all []*assignment) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_ = wait.PollUntilContextCancel(bounded, lookEvery, true, func(ctx context.Context) (bool, error) {
		for _, a := range all {
			if !a.underWay() {
				continue
			}
			if err := a.look(ctx); err != nil && !transient(err) {
				a.err = err
			}
		}
		return !slices.ContainsFunc(all, (*assignment).underWay), nil
	})
	for _, a := range all {
		waiting := cmp.Or(a.waiting, "waits for an answer of the API server")
		switch {
		case !a.underWay():
		case ctx.Err() != nil:
			a.err = fmt.Errorf("assigned to namespace %s and not there yet: it %s; the same command goes on: %w", a.To, waiting, ctx.Err())
		default:
			a.err = fmt.Errorf("not in namespace %s within %s: it %s. It stays assigned, and the same command goes on; the log of slipway-agent on its machine, or of slipway-manager, may tell more", a.To, timeout, waiting)
		}
	}
}

// transient says whether an error may be gone at the next look: that of an API server which
// is away or busy, and a Host that somebody changed meanwhile.
func transient(err error) bool {
	var r *refusal
	return !errors.As(err, &r) && (answer.Passing(err) || apierrors.IsConflict(err))
}

// refusal is what is wrong with the Hosts, which waiting does not mend.
type refusal struct{ message string }

func (r *refusal) Error() string { return r.message }

func refused(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// look sees how far the host is, and deletes its Host here once its agent is there.
func (a *assignment) look(ctx context.Context) error {
	source, target, err := a.hosts(ctx)
	if err != nil {
		return err
	}
	if source != nil && source.UID != a.uid {
		source = nil // The one that left is gone; this one is another host's.
	}
	switch {
	case target == nil || !target.DeletionTimestamp.IsZero():
		return refused("somebody deleted the Host %s/%s, which its agent goes to: once it is gone, the same command makes it again", a.To, a.name)
	case target.Spec.HostID != a.hostID:
		return refused("the Host %s belongs to another machine now: its spec.hostID is %q, and that of this one %s", key(target), target.Spec.HostID, a.hostID)
	case source != nil && !host.Successor(source, target):
		return refused("somebody took it back: spec.assignedNamespace of the Host %s is %q now. Its agent is at the one of the two that is connected: delete the other one", key(source), source.Spec.AssignedNamespace)
	case !arrived(target):
		a.waits("waits for its agent to go over to Host " + key(target))
		return nil
	case source == nil:
		a.state = StateAssigned
		return nil
	}
	return a.remove(ctx, source)
}

// remove deletes the Host that the agent left, as it was seen: free, and assigned.
func (a *assignment) remove(ctx context.Context, source *infrav1.Host) error {
	if source.Spec.Claim != nil {
		return refused("HostMachine %s has claimed the Host %s meanwhile, whose agent has left: delete its Machine, and run the same command again", source.Spec.Claim.MachineName, key(source))
	}
	a.waits("waits until Host " + key(source) + ", which its agent has left, is gone")
	if !source.DeletionTimestamp.IsZero() {
		return nil
	}
	return client.IgnoreNotFound(a.Client.Delete(ctx, source, client.Preconditions{UID: &source.UID, ResourceVersion: &source.ResourceVersion}))
}
