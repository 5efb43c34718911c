package capi

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	upstreamadmission "sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/core/webhooks/conversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/slipway-dev/slipway/internal/controller/extensionconfig"
	"github.com/slipway-dev/slipway/internal/program"
	rules "github.com/slipway-dev/slipway/internal/webhook"
	"github.com/slipway-dev/slipway/sdk/hook"
)

// setupExtensionConfig adds our controller in the place of upstream's, which ends
// the whole manager a minute after a discovery failed.
func setupExtensionConfig(e *env, rt *extensionconfig.Runtime, secretMetadata cache.Cache) error {
	if err := program.RegisterMetrics(extensionconfig.Collectors()...); err != nil {
		return err
	}
	return (&extensionconfig.Reconciler{
		Kind: extensionconfig.Upstream, Runtime: rt,
		Client: e.GetClient(), APIReader: e.GetAPIReader(),
		Recorder: coreEvents{e.GetEventRecorderFor("extensionconfig-controller")}, //nolint:staticcheck // see coreEvents
	}).SetupWithManager(e, secretMetadata, controllerOptions(concurrency))
}

// coreEvents records events of the core API group, which is the one that upstream's
// role for the core provider allows.
type coreEvents struct{ record.EventRecorder }

// Eventf implements events.EventRecorder.
func (r coreEvents) Eventf(regarding, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, eventType, reason, note, args...)
}

// extensionConfigWebhook is upstream's webhook and our stricter rules on top.
type extensionConfigWebhook struct {
	upstreamadmission.ExtensionConfig
	catalog *hook.Catalog
}

func (w *extensionConfigWebhook) setup(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &runtimev1.ExtensionConfig{}).
		WithDefaulter(&w.ExtensionConfig).
		WithValidator(w).
		WithConverter(conversion.ExtensionConfig).
		Complete()
}

// ValidateCreate implements admission.Validator.
func (w *extensionConfigWebhook) ValidateCreate(ctx context.Context, config *runtimev1.ExtensionConfig) (admission.Warnings, error) {
	return w.ValidateUpdate(ctx, nil, config)
}

// ValidateUpdate implements admission.Validator. It warns of handlers that
// implement a deprecated version of their hook.
func (w *extensionConfigWebhook) ValidateUpdate(ctx context.Context, before, config *runtimev1.ExtensionConfig) (admission.Warnings, error) {
	warnings, err := w.ExtensionConfig.ValidateUpdate(ctx, before, config)
	if err != nil {
		return warnings, err
	}
	warnings = append(warnings, rules.DeprecationWarnings(w.catalog, config.Status.Handlers)...)
	warnings = append(warnings, rules.PortabilityWarnings(config)...)
	if errs := rules.ValidateExtensionConfig(config); len(errs) > 0 {
		return warnings, apierrors.NewInvalid(runtimev1.GroupVersion.WithKind("ExtensionConfig").GroupKind(), config.Name, errs)
	}
	return warnings, nil
}
