package extensionconfig

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// warmUpParallel is the number of extensions that are discovered at a time at the start.
const warmUpParallel = 16

// listRetry paces the reads of the API server at the start, without an end: calls
// fail until it answers, which is what a missing registry means.
var listRetry = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: jitter, Steps: 7, Cap: 10 * time.Second}

// warmUpTimeout is how long calls wait for extensions that answer slowly. After it,
// calls for the objects of the other extensions are allowed.
const warmUpTimeout = 3 * time.Second

var errStarting = errors.New("it was not discovered yet since the start of the manager")

// warmUp discovers all extensions once before calls are allowed. It never fails:
// an extension that does not answer is left to the controller, and its last known
// handlers are registered meanwhile.
type warmUp struct{ *Reconciler }

var _ manager.LeaderElectionRunnable = warmUp{}

// NeedLeaderElection implements manager.LeaderElectionRunnable: it writes.
func (warmUp) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (w warmUp) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithValues("kind", w.Kind.Name)
	objects, err := w.list(ctx)
	if err != nil {
		// Only the end of the context gets here.
		return nil //nolint:nilerr
	}
	for _, object := range objects {
		w.registerLastKnown(object, errStarting)
	}
	discovered := make(chan struct{})
	go func() {
		defer close(discovered)
		w.refreshAll(ctx, objects)
	}()
	select {
	case <-discovered:
	case <-time.After(warmUpTimeout):
	}
	if err := w.Runtime.Registry.WarmUp(); err != nil {
		return fmt.Errorf("warm up the registry of runtime extensions: %w", err)
	}
	log.Info("The registry of runtime extensions is ready", "extensions", len(objects))
	<-discovered
	return nil
}

func (w warmUp) refreshAll(ctx context.Context, objects []Object) {
	var group errgroup.Group
	group.SetLimit(warmUpParallel)
	for _, object := range objects {
		group.Go(func() error {
			if _, err := w.refresh(ctx, object); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "Cannot write what was discovered", "kind", w.Kind.Name, "name", object.GetName())
			}
			return nil
		})
	}
	_ = group.Wait()
}

// list returns the objects that are not being deleted.
func (w warmUp) list(ctx context.Context) ([]Object, error) {
	list := w.Kind.NewList()
	backoff := listRetry
	for {
		err := w.APIReader.List(ctx, list)
		if err == nil {
			break
		}
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the registrations of runtime extensions; trying again", "kind", w.Kind.Name)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(backoff.Step()):
		}
	}
	var objects []Object
	for _, object := range w.Kind.Items(list) {
		if object.GetDeletionTimestamp().IsZero() && w.selected(object) {
			objects = append(objects, object)
		}
	}
	return objects, nil
}
