package admission

import (
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// SetupWithManager registers the webhooks with the server of the manager. They answer
// in every replica.
func SetupWithManager(mgr ctrl.Manager) error {
	access, err := newAccess(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("set up the webhooks: %w", err)
	}
	validator := &policyValidator{client: mgr.GetClient(), reader: mgr.GetAPIReader(), access: access, now: time.Now}
	if err := ctrl.NewWebhookManagedBy(mgr, &lifecyclev1.LifecyclePolicy{}).WithValidator(validator).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of LifecyclePolicies: %w", err)
	}
	decider := &runDecider{access: access, now: time.Now}
	if err := ctrl.NewWebhookManagedBy(mgr, &lifecyclev1.LifecycleRun{}).WithDefaulter(decider).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of LifecycleRuns: %w", err)
	}
	return nil
}
