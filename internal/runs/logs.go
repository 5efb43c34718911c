package runs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// Logs writes the logs that were kept of the Jobs of a step, oldest first.
func Logs(ctx context.Context, c client.Reader, run *lifecyclev1.LifecycleRun, of string, out io.Writer) error {
	s := run.Step(of)
	if s == nil || s.Job == nil {
		return fmt.Errorf("LifecycleRun %s has no job step %q", run.Name, of)
	}
	labels := step.Labels(run, of)
	// Cluster API's managers keep every Secret with the label of a Cluster in memory, so
	// these do not have it.
	labels = map[string]string{lifecyclev1.RunLabel: labels[lifecyclev1.RunLabel], lifecyclev1.StepLabel: labels[lifecyclev1.StepLabel]}
	secrets := &corev1.SecretList{}
	if err := c.List(ctx, secrets, client.InNamespace(run.Namespace), client.MatchingLabels(labels)); err != nil {
		return fmt.Errorf("list the logs: %w", err)
	}
	kept := slices.DeleteFunc(secrets.Items, func(s corev1.Secret) bool { return len(s.Data) == 0 })
	if len(kept) == 0 {
		said := "it has not begun"
		if progress := run.Progress(of); progress != nil {
			said = cmp.Or(progress.Message, "its Job has not ended")
		}
		return fmt.Errorf("no logs of step %s are kept: %s", of, said)
	}
	slices.SortFunc(kept, func(a, b corev1.Secret) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, secret := range kept {
		for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
			if _, err := fmt.Fprintf(out, "==> %s/%s <==\n%s\n", secret.Name, key, secret.Data[key]); err != nil {
				return err
			}
		}
	}
	return nil
}
