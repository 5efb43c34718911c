package capi

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/feature"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// TestExtensionConfigsAreWarnedOf holds that whoever applies an ExtensionConfig to a plane hears, whenever it is made or
// changed, of what only a plane respects, and that it is accepted all the same.
func TestExtensionConfigsAreWarnedOf(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, feature.Gates, feature.RuntimeSDK, true)
	w := &extensionConfigWebhook{catalog: hook.NewCatalog()}
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "freeze"}}
	config.Spec.ClientConfig.URL, config.Spec.NamespaceSelector = "https://extension.example.com", &metav1.LabelSelector{}
	portable := config.DeepCopy()
	config.Annotations = map[string]string{registry.ObjectSelectorAnnotation: "tier=prod", registry.MatchConditionAnnotation: "true"}
	for _, annotation := range []string{registry.ObjectSelectorAnnotation, registry.MatchConditionAnnotation} {
		for name, validate := range map[string]func() ([]string, error){
			"made":    func() ([]string, error) { return w.ValidateCreate(t.Context(), config) },
			"changed": func() ([]string, error) { return w.ValidateUpdate(t.Context(), portable, config) },
		} {
			warnings, err := validate()
			if err != nil || !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, annotation+" is ignored") }) {
				t.Errorf("%s with %s: %q, %v", name, annotation, warnings, err)
			}
		}
	}
	if warnings, err := w.ValidateCreate(t.Context(), portable); err != nil || len(warnings) > 0 {
		t.Errorf("without annotations: %q, %v", warnings, err)
	}
}
