package reconciler

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// ConflictRetry lets the cache catch up with the write that won.
	ConflictRetry = 50 * time.Millisecond
	// terminatingRetry is seldom: objects of a namespace that ends are deleted, which wakes
	// their reconcilers.
	terminatingRetry = 10 * time.Second
)

// Phase is one step of a reconcile. It records what it saw in scope, and returns false
// when the following ones must wait for another reconcile.
type Phase[Scope any] func(ctx context.Context, scope Scope) (proceed bool, err error)

// Always makes phases of steps that never hold back the following ones.
func Always[Scope any](steps ...func(context.Context, Scope) error) []Phase[Scope] {
	phases := make([]Phase[Scope], 0, len(steps))
	for _, step := range steps {
		phases = append(phases, func(ctx context.Context, scope Scope) (bool, error) {
			return true, step(ctx, scope)
		})
	}
	return phases
}

// Run plays phases in their order, up to the first that fails or holds back the others,
// and returns the error of that.
func Run[Scope any](ctx context.Context, scope Scope, phases []Phase[Scope]) error {
	for _, phase := range phases {
		if proceed, err := phase(ctx, scope); err != nil || !proceed {
			return err
		}
	}
	return nil
}

// Replan plans over what the cache shows. If that has something to do, it reads past the cache, and
// returns a plan over what it read: a cache that lags behind never doubles a step.
func Replan[Plan any](plan func() (Plan, error), acts func(Plan) bool, read func() error) (Plan, error) {
	p, err := plan()
	if err != nil || !acts(p) {
		return p, err
	}
	if err := read(); err != nil {
		return p, err
	}
	return plan()
}

// Result is what follows from how the phases ended: a failure is retried later each time,
// a conflict soon, since somebody else merely wrote first. In a namespace that is being
// deleted nothing can be made, which is no failure. Otherwise the object is looked at again
// after that time, not at all when it is zero.
func Result(ctx context.Context, after time.Duration, err error) (ctrl.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		ctrl.LoggerFrom(ctx).V(4).Info("Requeuing after conflict", "conflict", err.Error())
		return ctrl.Result{RequeueAfter: ConflictRetry}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		ctrl.LoggerFrom(ctx).V(4).Info("The namespace is being deleted", "refusal", err.Error())
		return ctrl.Result{RequeueAfter: terminatingRetry}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// Ending is what follows from how the phases ended, by Result, and from the write of the
// status after them. Only a write that fails beside phases that did not is retried as Result
// says; there is no result beside an error, which controller-runtime would ignore.
func Ending(ctx context.Context, result ctrl.Result, failed, unwritten error) (ctrl.Result, error) {
	switch {
	case unwritten == nil:
		return result, failed
	case failed != nil:
		return ctrl.Result{}, errors.Join(failed, unwritten)
	}
	// The patch helper of Cluster API hides a conflict in a list of one.
	return Result(ctx, result.RequeueAfter, kerrors.Reduce(unwritten))
}
