package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

const (
	// sweepPage is how many RoleBindings are read at once.
	sweepPage = 500
	// sweepRetry is when a sweep that failed is tried again.
	sweepRetry = 10 * time.Second
)

// sweepOnce sweeps until it succeeds once or the manager ends. Why it failed is no reason to
// end the manager.
func (r *SecretAccessReconciler) sweepOnce(ctx context.Context) error {
	_ = wait.PollUntilContextCancel(ctx, sweepRetry, true, func(ctx context.Context) (bool, error) {
		err := r.sweep(ctx)
		if err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Look for lists of agents without a label")
		}
		return err == nil, nil
	})
	return nil
}

// sweep deletes the lists of agents that lost their label while no manager ran: the cache
// does not have them, and once no Host names their Secret nothing reconciles them, so that
// the agents on them would read it for ever. One that is still needed is made anew: its Hosts
// are reconciled when the manager starts, too.
func (r *SecretAccessReconciler) sweep(ctx context.Context) error {
	unlabelled, err := labels.Parse("!" + infrav1.HostLabel)
	if err != nil {
		return fmt.Errorf("select what has no label: %w", err)
	}
	for next := ""; ; {
		page := &rbacv1.RoleBindingList{}
		err := r.APIReader.List(ctx, page, client.InNamespace(r.Namespace), client.MatchingLabelsSelector{Selector: unlabelled}, client.Limit(sweepPage), client.Continue(next))
		if err != nil {
			return fmt.Errorf("list RoleBindings: %w", err)
		}
		for i := range page.Items {
			if !isList(&page.Items[i]) {
				continue
			}
			if err := remove(ctx, r.Client, &page.Items[i]); err != nil {
				return err
			}
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}

// isList says whether a RoleBinding is one that the manager made for a bootstrap Secret, and
// not one of somebody else with such a name.
func isList(binding *rbacv1.RoleBinding) bool {
	agent := infrav1.AgentUserPrefix + binding.Namespace + ":"
	return strings.HasPrefix(binding.Name, secretAccessPrefix) && binding.RoleRef == roleOf(binding.Name) &&
		!slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool {
			return s.Kind != rbacv1.UserKind || !strings.HasPrefix(s.Name, agent)
		})
}
