package testenv

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// A server knows the kinds from its first request on, and nothing of what another one was
// told.
func TestStartWith(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server, skipped by -short")
	}
	programs := os.Getenv("KUBEBUILDER_ASSETS")
	if programs == "" {
		rights.Skip(t, "KUBEBUILDER_ASSETS is not set; make envtest builds them into bin/envtest")
	}
	assets := filepath.Join(t.TempDir(), "programs")
	if err := os.Symlink(programs, assets); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	name := metav1.ObjectMeta{Name: "widgets.example.com"}
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"}
	kinds := []*apiextensionsv1.CustomResourceDefinition{{ObjectMeta: name, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Names: names, Scope: apiextensionsv1.NamespaceScoped,
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
		}},
	}}}
	for range 2 {
		config, stop, err := StartServerWith(&envtest.Environment{}, kinds)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}()
		client := kubernetes.NewForConfigOrDie(config)
		served, err := client.Discovery().ServerResourcesForGroupVersion("example.com/v1")
		if err != nil || len(served.APIResources) == 0 || served.APIResources[0].Kind != "Widget" {
			t.Errorf("served are %+v (%v)", served, err)
		}
		if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "of-one-test"}}, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
	if seeds, _ := filepath.Glob(filepath.Join(filepath.Dir(assets), "envtest-etcd", "*[0-9a-f]")); len(seeds) != 1 {
		t.Errorf("seeds %q, want one for both", seeds)
	}
	// Another kind is not found in what was made for these.
	kinds[0].Spec.Versions[0].Name = "v2"
	if other, err := digestOf(kinds); err != nil {
		t.Error(err)
	} else if _, err := os.Stat(filepath.Join(filepath.Dir(assets), "envtest-etcd", other)); err == nil {
		t.Error("kinds that differ share an etcd")
	}
}
