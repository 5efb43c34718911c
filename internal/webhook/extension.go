package webhook

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/registry"
	"github.com/slipway-dev/slipway/sdk/registry/cel"
)

var annotationsPath = field.NewPath("metadata", "annotations")

// ValidateExtensionConfig returns what is wrong with an ExtensionConfig of Cluster
// API: all that upstream refuses, and what upstream accepts but must not be called,
// such as a URL with a password. It also checks the annotations of our registry.
func ValidateExtensionConfig(config *runtimev1.ExtensionConfig) field.ErrorList {
	errs := validateExtension(&config.ObjectMeta, config.Spec.ClientConfig, config.Spec.NamespaceSelector)
	if _, err := labels.Parse(config.Annotations[registry.ObjectSelectorAnnotation]); err != nil {
		errs = append(errs, field.Invalid(annotationsPath.Key(registry.ObjectSelectorAnnotation), config.Annotations[registry.ObjectSelectorAnnotation], err.Error()))
	}
	if expression, ok := config.Annotations[registry.MatchConditionAnnotation]; ok {
		errs = append(errs, validateCondition(expression, annotationsPath.Key(registry.MatchConditionAnnotation))...)
	}
	return errs
}

func validateExtension(meta *metav1.ObjectMeta, config runtimev1.ClientConfig, namespaces *metav1.LabelSelector) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Label(meta.Name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), meta.Name, message))
	}
	if _, err := registry.BaseURL(config); err != nil {
		// The value may hold a password.
		errs = append(errs, field.Invalid(specPath.Child("clientConfig"), field.OmitValueType{}, err.Error()))
	}
	if len(config.CABundle) > 0 {
		if block, _ := pem.Decode(config.CABundle); block == nil || block.Type != "CERTIFICATE" {
			errs = append(errs, field.Invalid(specPath.Child("clientConfig", "caBundle"), field.OmitValueType{}, "holds no certificate in PEM form"))
		}
	}
	if secret, ok := meta.Annotations[runtimev1.InjectCAFromSecretAnnotation]; ok {
		if namespace, name, found := strings.Cut(secret, "/"); !found || namespace == "" || name == "" || strings.Contains(name, "/") {
			errs = append(errs, field.Invalid(annotationsPath.Key(runtimev1.InjectCAFromSecretAnnotation), secret, "must be <namespace>/<name> of a Secret"))
		}
	}
	return append(errs, metavalidation.ValidateLabelSelector(namespaces, metavalidation.LabelSelectorValidationOptions{}, specPath.Child("namespaceSelector"))...)
}

func validateCondition(expression string, path *field.Path) field.ErrorList {
	if _, err := cel.Compile(expression); err != nil {
		return field.ErrorList{field.Invalid(path, expression, err.Error())}
	}
	return nil
}

// PortabilityWarnings name what of an ExtensionConfig only a plane of slipway respects. Elsewhere
// Cluster API's own manager calls the extension for every object.
func PortabilityWarnings(config *runtimev1.ExtensionConfig) (warnings admission.Warnings) {
	for _, annotation := range []string{registry.ObjectSelectorAnnotation, registry.MatchConditionAnnotation} {
		if _, set := config.Annotations[annotation]; set {
			warnings = append(warnings, "annotation "+annotation+" is ignored by Cluster API's own manager, in a management cluster that is no plane of slipway: "+
				"filter in the extension to be portable (extension.WithObjectSelector, extension.WithMatch)")
		}
	}
	return warnings
}

// DeprecationWarnings tells which handlers, as discovered last, implement a version
// of their hook that goes away.
func DeprecationWarnings(catalog *hook.Catalog, handlers []runtimev1.ExtensionHandler) admission.Warnings {
	var warnings admission.Warnings
	for _, finding := range hook.CheckUpgrade(catalog, "", registry.Uses(handlers)) {
		warnings = append(warnings, finding.Message)
	}
	return warnings
}

// +kubebuilder:webhook:verbs=create;update,path=/validate-runtime-slipway-dev-v1alpha1-hostextensionconfig,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=runtime.slipway.dev,resources=hostextensionconfigs,versions=v1alpha1,name=validation.hostextensionconfig.runtime.slipway.dev,sideEffects=None,admissionReviewVersions=v1

// HostExtensionConfig validates HostExtensionConfigs.
type HostExtensionConfig struct {
	noDelete[*runtimev1alpha1.HostExtensionConfig]
	// Catalog holds the hooks, for warnings.
	Catalog *hook.Catalog
	// Off refuses new ones: the feature gate HostExtensionConfig is off.
	Off bool
}

// errGateOff is why no HostExtensionConfig can be made.
var errGateOff = errors.New("the feature gate HostExtensionConfig is off: nothing would call the extension. Start slipway-manager with --feature-gates=HostExtensionConfig=true")

func (o Options) setupHostExtensionConfig(mgr ctrl.Manager) error {
	catalog := hook.NewCatalog()
	if err := host.AddToCatalog(catalog); err != nil {
		return fmt.Errorf("catalog of the host hooks: %w", err)
	}
	return ctrl.NewWebhookManagedBy(mgr, &runtimev1alpha1.HostExtensionConfig{}).
		WithValidator(HostExtensionConfig{Catalog: catalog, Off: o.NoHostExtensionConfigs}).Complete()
}

// ValidateCreate checks where the extension is and the selectors, and that anybody would
// call it.
func (v HostExtensionConfig) ValidateCreate(ctx context.Context, obj *runtimev1alpha1.HostExtensionConfig) (admission.Warnings, error) {
	if v.Off {
		return nil, apierrors.NewForbidden(runtimev1alpha1.GroupVersion.WithResource("hostextensionconfigs").GroupResource(), obj.Name, errGateOff)
	}
	return v.ValidateUpdate(ctx, nil, obj)
}

// ValidateUpdate checks where the extension is and the selectors, and warns of handlers that
// implement a deprecated version of their hook.
func (v HostExtensionConfig) ValidateUpdate(_ context.Context, _, obj *runtimev1alpha1.HostExtensionConfig) (admission.Warnings, error) {
	errs := validateExtension(&obj.ObjectMeta, obj.Spec.ClientConfig, obj.Spec.NamespaceSelector)
	errs = append(errs, metavalidation.ValidateLabelSelector(obj.Spec.ObjectSelector, metavalidation.LabelSelectorValidationOptions{}, specPath.Child("objectSelector"))...)
	if obj.Spec.MatchCondition != "" {
		errs = append(errs, validateCondition(obj.Spec.MatchCondition, specPath.Child("matchCondition"))...)
	}
	warnings := DeprecationWarnings(v.Catalog, obj.Status.Handlers)
	if len(errs) > 0 {
		return warnings, apierrors.NewInvalid(runtimev1alpha1.GroupVersion.WithKind("HostExtensionConfig").GroupKind(), obj.Name, errs)
	}
	return warnings, nil
}
