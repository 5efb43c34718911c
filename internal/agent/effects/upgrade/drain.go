package upgrade

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/text"
)

const (
	// drainInterval is how often a drain looks which pods are left, and asks again
	// for those that a disruption budget holds.
	drainInterval = time.Second
	// maxNamed bounds how many pods a message names.
	maxNamed = 5
	// skipLabel with the value "skip" keeps a pod from being drained, as in Cluster
	// API's own drain of Machines.
	skipLabel = "cluster.x-k8s.io/drain"
)

// drain evicts what would not survive, or not like, another kubelet, and returns
// when it is gone. Disruption budgets are kept: past the deadline the drain fails,
// it never deletes around them.
func (u Upgrader) drain(ctx context.Context, node Node, progress operation.Progress) error {
	deadline := u.Now().Add(u.DrainTimeout)
	e := eviction{node: node, now: u.Now, refused: map[types.UID]time.Time{}}
	said := ""
	for {
		pods, err := node.Pods(ctx)
		if err != nil {
			return operation.Unreachable(err, "list the pods of the Node")
		}
		left, err := e.evict(ctx, pods)
		if err != nil || len(left) == 0 {
			return err
		}
		waiting := "waiting for " + text.List(left, maxNamed)
		if u.Now().After(deadline) {
			return &operation.Error{Reason: operation.ReasonDrainTimeout, Retry: operation.RetryNever, Message: fmt.Sprintf(
				"the Node could not be drained within %s: still %s; relax the disruption budget or move the pods, then request it again", u.DrainTimeout, waiting)}
		}
		if waiting != said {
			if err := progress.Update(func(s *journal.State) { s.Operation.Reason, s.Operation.Message = e.reason(), waiting }); err != nil {
				return err
			}
			said = waiting
		}
		if err := u.Sleep(ctx, drainInterval); err != nil {
			return err
		}
	}
}

// eviction is that of the pods of a Node.
type eviction struct {
	node Node
	now  func() time.Time
	// refused is since when the evictions of pods are refused.
	refused map[types.UID]time.Time
}

// reason is that of the operation while evictions are refused.
func (e eviction) reason() string {
	if len(e.refused) > 0 {
		return operation.ReasonEvictionsRefused
	}
	return ""
}

// evict asks for the eviction of every pod that has to go, and returns what is
// still there, in words for a message. Those whose eviction is refused come first.
func (e eviction) evict(ctx context.Context, pods []corev1.Pod) ([]string, error) {
	var held, ending []string
	before := maps.Clone(e.refused)
	clear(e.refused)
	refuse := func(pod *corev1.Pod, why string) {
		since, found := before[pod.UID]
		if !found {
			since = e.now()
		}
		e.refused[pod.UID] = since
		held = append(held, fmt.Sprintf("%s/%s (%s since %s)", pod.Namespace, pod.Name, why, since.UTC().Format(time.RFC3339)))
	}
	for i := range pods {
		pod := &pods[i]
		if stays(pod) {
			continue
		}
		name := pod.Namespace + "/" + pod.Name
		if pod.DeletionTimestamp != nil {
			ending = append(ending, name+" (ending)")
			continue
		}
		err := e.node.Evict(ctx, pod)
		switch {
		case err == nil:
			ending = append(ending, name+" (ending)")
		case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
			// It went by itself, or another one took its name.
		case apierrors.IsTooManyRequests(err):
			refuse(pod, "held by a disruption budget")
		case apierrors.IsInternalError(err) || apierrors.IsTimeout(err):
			// Several budgets for one pod are answered like this, or another pod of its
			// name.
			refuse(pod, fmt.Sprintf("%.120v", err))
		default:
			return nil, operation.Unreachable(err, "evict pod "+name)
		}
	}
	slices.Sort(held)
	slices.Sort(ending)
	return append(held, ending...), nil
}

// stays reports whether a drain leaves the pod: its daemon set would ignore the
// cordon, its manifest is on this host, or it has ended.
func stays(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return mirror || ended || (owner != nil && owner.Kind == "DaemonSet") || pod.Labels[skipLabel] == "skip"
}
