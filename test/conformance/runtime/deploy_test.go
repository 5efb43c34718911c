package runtime

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// deployment is how docs/sdk.md deploys the example.
const deployment = "../../../sdk/examples/quota/deploy.yaml"

// TestDeployExample applies the manifests of the example as a user does, to an API
// server that knows ExtensionConfigs and cert-manager's kinds: each field is known,
// the pods are within the restricted Pod Security Standard, and what refers to
// another object finds it.
func TestDeployExample(t *testing.T) {
	level.Deep(t)
	c, kubeconfig := startManagementCluster(t)
	manifests, err := os.ReadFile(deployment)
	if err != nil {
		t.Fatal(err)
	}
	// The namespace is made first, so that the API server warns of the pods.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quota", Labels: map[string]string{"pod-security.kubernetes.io/warn": "restricted"}}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	for range 2 { // applied again, nothing is in the way
		var warnings bytes.Buffer
		apply := exec.CommandContext(t.Context(), judge.Kubectl(), "--kubeconfig", kubeconfig, "apply", "--server-side", "--validate=strict", "-f", "-")
		apply.Stdin = bytes.NewReader(manifests)
		apply.Stderr = &warnings
		if out, err := apply.Output(); err != nil || warnings.Len() > 0 {
			t.Fatalf("kubectl apply: %v\n%s%s", err, out, &warnings)
		}
	}

	var config runtimev1.ExtensionConfig
	var service corev1.Service
	var pods appsv1.Deployment
	certificate := &unstructured.Unstructured{}
	certificate.SetAPIVersion("cert-manager.io/v1")
	certificate.SetKind("Certificate")
	get := func(object client.Object, key client.ObjectKey) {
		t.Helper()
		if err := c.Get(t.Context(), key, object); err != nil {
			t.Fatal(err)
		}
	}
	name := client.ObjectKey{Namespace: "quota", Name: "quota"}
	get(&config, client.ObjectKey{Name: "quota"})
	called := config.Spec.ClientConfig.Service
	get(&service, client.ObjectKey{Namespace: called.Namespace, Name: called.Name})
	get(&pods, name)
	get(certificate, name)

	pod := pods.Spec.Template.Spec
	get(&corev1.ServiceAccount{}, client.ObjectKey{Namespace: "quota", Name: pod.ServiceAccountName})
	if pod.ServiceAccountName == "default" || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Errorf("the pods have a token of the ServiceAccount %q", pod.ServiceAccountName)
	}
	if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pods.Spec.Template.Labels)) {
		t.Error("the Service selects none of the pods")
	}
	port := service.Spec.Ports[0]
	if called.Port == nil || *called.Port != port.Port || pod.Containers[0].Ports[0].Name != port.TargetPort.String() {
		t.Errorf("the ExtensionConfig calls %+v, the Service serves %+v", called, port)
	}
	secret, _, _ := unstructured.NestedString(certificate.Object, "spec", "secretName")
	if mounted := pod.Volumes[0].Secret.SecretName; mounted != secret {
		t.Errorf("the pods mount %s, the Certificate is in %s", mounted, secret)
	}
	if from := config.Annotations[runtimev1.InjectCAFromSecretAnnotation]; from != "quota/"+secret {
		t.Errorf("the CA comes from %s, the Certificate is in %s", from, secret)
	}
	names, _, _ := unstructured.NestedStringSlice(certificate.Object, "spec", "dnsNames")
	if want := called.Name + "." + called.Namespace + ".svc"; strings.Join(names, " ") != want {
		t.Errorf("the Certificate is for %v, callers ask for %s", names, want)
	}
}

// startManagementCluster starts an API server with the CRDs of Cluster API's core and
// of cert-manager, and nobody who serves them.
func startManagementCluster(t *testing.T) (_ client.Client, kubeconfig string) {
	t.Helper()
	core, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	certManager, err := judge.Download(t.Context(), judge.CertManager)
	if err != nil {
		t.Fatal(err)
	}
	server := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join(strings.TrimSpace(string(core)), "core/config/crd/bases"), filepath.Join(certManager, "deploy", "crds")},
		ErrorIfCRDPathMissing: true,
	}
	config, err := testenv.StartServer(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, runtimev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, server.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return c, kubeconfig
}
