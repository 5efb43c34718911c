package kube

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
)

const (
	// eventLife is how long events are kept: what happened at the weekend is there on Monday.
	eventLife = 7 * 24 * time.Hour
	// maxEvents bounds them, to a few percent of the database.
	maxEvents = 20_000
	// eventPage is how many are listed at a time.
	eventPage = 500

	eventCleanPeriod = 10 * time.Minute
)

var eventResource = corev1.SchemeGroupVersion.WithResource("events")

// setupEventCleaner removes the oldest events when there are more than maxEvents. The API server removes those
// that are older than eventLife.
func setupEventCleaner(_ context.Context, env *environment) (func(context.Context), error) {
	return func(ctx context.Context) {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := cleanEvents(ctx, env.metadata, maxEvents); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Old events could not be removed")
			}
		}, eventCleanPeriod)
	}, nil
}

// cleanEvents removes the oldest events beyond nine tenths of the most that there may be, once there are
// more. It lists all of them only then.
func cleanEvents(ctx context.Context, c metadata.Interface, most int) error {
	events := c.Resource(eventResource)
	first, err := events.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil || first.RemainingItemCount == nil || int(*first.RemainingItemCount) < most {
		return err
	}
	var all []metav1.ObjectMeta
	for next := ""; ; {
		list, err := events.List(ctx, metav1.ListOptions{Limit: eventPage, Continue: next})
		if err != nil {
			return err
		}
		for i := range list.Items {
			m := &list.Items[i]
			all = append(all, metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, CreationTimestamp: m.CreationTimestamp})
		}
		if next = list.Continue; next == "" {
			break
		}
	}
	slices.SortFunc(all, func(a, b metav1.ObjectMeta) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, e := range all[:max(0, len(all)-most*9/10)] {
		err := events.Namespace(e.Namespace).Delete(ctx, e.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(e.UID))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}
