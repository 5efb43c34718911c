package privilege

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// released starts an API server that has cert-manager's kinds and the engine's webhooks and
// admission policies, as they are rendered for a release. Their Service does not exist.
func released(t *testing.T) (*rest.Config, client.Client) {
	t.Helper()
	server := &envtest.Environment{CRDs: []*apiextensionsv1.CustomResourceDefinition{
		certManagerKind("Issuer", "issuers"), certManagerKind("Certificate", "certificates"),
	}}
	restConfig, err := testenv.StartServer(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	c, err := client.New(restConfig, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := judge.Kustomize(t.Context(), "../../../config/lifecycle/default")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := utilyaml.ToUnstructured(rendered)
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for i := range objects {
		if objects[i].GroupVersionKind().Group != "admissionregistration.k8s.io" {
			continue
		}
		made++
		if err := c.Create(t.Context(), &objects[i]); err != nil {
			t.Fatal(err)
		}
	}
	if made < 4 {
		t.Fatalf("the release has %d webhook configurations and admission policies", made)
	}
	return restConfig, c
}

// certManagerKind is one of cert-manager's, as far as clusterctl's check of it needs it.
func certManagerKind(name, plural string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".cert-manager.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "cert-manager.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: name, ListKind: name + "List", Plural: plural, Singular: strings.ToLower(name)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}},
			}},
		},
	}
}

// TestOthersWorkWhileTheEngineIsAway holds that an engine which is away stops nobody else:
// Namespaces without a policy that may hold a deletion back can be deleted, and clusterctl, which
// tries cert-manager in a Namespace that it deletes, installs any provider.
func TestOthersWorkWhileTheEngineIsAway(t *testing.T) {
	level.Deep(t)
	restConfig, c := released(t)
	for name, held := range map[string]bool{"shop": false, "capa-system": false, "slipway-system": false, "team-a": true} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if held {
			namespace.Labels = map[string]string{lifecyclev1.DeletionGuardLabel: ""}
		}
		if err := c.Create(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), namespace); (err != nil) != held {
			t.Errorf("deletion of Namespace %s answers %v, want it refused: %t", name, err, held)
		}
	}
	dir := t.TempDir()
	kubeconfig, err := judge.Kubeconfig(restConfig)
	if err != nil {
		t.Fatal(err)
	}
	path, settings := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "clusterctl.yaml")
	for file, data := range map[string][]byte{path: bytes.TrimSpace(kubeconfig), settings: []byte("cert-manager: {externallyProvisioned: \"true\"}\n")} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configClient, err := config.New(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	certManager := cluster.New(cluster.Kubeconfig{Path: path}, configClient).CertManager()
	if err := certManager.EnsureInstalled(t.Context()); err != nil {
		t.Errorf("clusterctl init of any provider fails: %v", err)
	}
}
