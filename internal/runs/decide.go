package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/text"
)

// Find returns the run of that name; nil when there is none.
func Find(ctx context.Context, c client.Reader, key client.ObjectKey) (*lifecyclev1.LifecycleRun, error) {
	run := &lifecyclev1.LifecycleRun{}
	err := c.Get(ctx, key, run)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read LifecycleRun %s: %w", key, err)
	}
	return run, nil
}

// ToApprove returns the run and the step that an approval is about: the run of that
// name, or the one of the Cluster of that name that waits for an approval. An empty
// step is the one that waits.
func ToApprove(ctx context.Context, c client.Reader, key client.ObjectKey, step string) (*lifecyclev1.LifecycleRun, string, error) {
	run, err := Find(ctx, c, key)
	if err != nil {
		return nil, "", err
	}
	if run != nil {
		if step == "" {
			if step = WaitingForApproval(run); step == "" {
				return nil, "", fmt.Errorf("LifecycleRun %s does not wait for an approval: %s", run.Name, plan.Explain(run))
			}
		}
		return run, step, nil
	}
	list, err := ofCluster(ctx, c, key)
	if err != nil {
		return nil, "", err
	}
	var found []string
	for i := range list {
		if waits := WaitingForApproval(&list[i]); waits != "" && (step == "" || step == waits) {
			run, found = &list[i], append(found, list[i].Name)
		}
	}
	switch len(found) {
	case 0:
		return nil, "", fmt.Errorf("there is no LifecycleRun %s, and Cluster %s has no pending approval; see `slipway lifecycle explain %s`", key.Name, key.Name, key.Name)
	case 1:
		return run, WaitingForApproval(run), nil
	}
	return nil, "", fmt.Errorf("several runs of Cluster %s wait for an approval; name one of %s", key.Name, strings.Join(found, ", "))
}

// WaitingForApproval returns the step of a run that waits for an approval; empty when
// none does.
func WaitingForApproval(run *lifecyclev1.LifecycleRun) string {
	current := plan.Current(run)
	if plan.Finished(run) || current == nil || step.FactsOf(current).Approval == "" {
		return ""
	}
	return current.Name
}

// Decide has a decision recorded, in the name of the client's user, and returns it as
// it was recorded.
func Decide(ctx context.Context, c client.Client, run *lifecyclev1.LifecycleRun, decision lifecyclev1.DecisionType, step, reason string) (*lifecyclev1.Decision, error) {
	value := step
	if reason = text.OneLine(reason); reason != "" {
		value += ": " + reason
	}
	changed := run.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, decision.Annotation(), value)
	// What was looked at must be what is decided about.
	if err := c.Patch(ctx, changed, client.MergeFromWithOptions(run, client.MergeFromWithOptimisticLock{})); err != nil {
		if apierrors.IsConflict(err) {
			return nil, fmt.Errorf("LifecycleRun %s has changed just now; look at it and decide again", run.Name)
		}
		return nil, err
	}
	i := slices.IndexFunc(changed.Spec.Decisions, func(d lifecyclev1.Decision) bool {
		return d.Type == decision && d.Step == step && !slices.Contains(run.Spec.Decisions, d)
	})
	if i < 0 {
		return nil, errors.New("the decision was not recorded: the webhook of slipway-lifecycle was not called; see that it is installed")
	}
	return &changed.Spec.Decisions[i], nil
}
