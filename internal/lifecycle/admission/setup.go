package admission

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/policy"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
)

// SetupWithManager registers the webhooks with the server of the manager. They answer
// in every replica. An engine that watches one namespace, all when empty, admits no
// policies elsewhere, and holds no other namespace's deletion back. own are the engine's
// rights, which a policy's author is told when they do not suffice.
func SetupWithManager(mgr ctrl.Manager, namespace string, own *rights.Checker) error {
	access, err := newAccess(mgr.GetConfig(), own)
	if err != nil {
		return fmt.Errorf("set up the webhooks: %w", err)
	}
	gates := &deletionGates{namespace: namespace, reader: mgr.GetAPIReader()}
	validator := &policyValidator{namespace: namespace, client: mgr.GetClient(), reader: mgr.GetAPIReader(), access: access, gates: gates, guard: &policy.Guard{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader()}, now: time.Now}
	if err := ctrl.NewWebhookManagedBy(mgr, &lifecyclev1.LifecyclePolicy{}).WithValidator(validator).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of LifecyclePolicies: %w", err)
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &corev1.Namespace{}).WithValidator(namespaceKeeper{gates}).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of Namespaces: %w", err)
	}
	keeper := clusterKeeper{deletionGates: gates, access: access, now: time.Now}
	if err := ctrl.NewWebhookManagedBy(mgr, &clusterv1.Cluster{}).WithValidator(keeper).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of Clusters: %w", err)
	}
	decider := &runDecider{access: access, now: time.Now}
	if err := ctrl.NewWebhookManagedBy(mgr, &lifecyclev1.LifecycleRun{}).WithDefaulter(decider).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of LifecycleRuns: %w", err)
	}
	return nil
}
