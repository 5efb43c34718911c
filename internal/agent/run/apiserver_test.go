package run_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
)

const (
	adminToken     = "admin-token"
	bootstrapToken = "abcdef.0123456789abcdef"
)

// apiServer is a real kube-apiserver on a real etcd, with a CA whose key the
// test holds.
type apiServer struct {
	url    string
	dir    string
	ca     *x509.Certificate
	caKey  *ecdsa.PrivateKey
	client dynamic.Interface
}

// startAPIServer starts the binaries of KUBEBUILDER_ASSETS and installs the CRD
// of Host, whose status lacks some fields.
func startAPIServer(t *testing.T, lacks ...string) *apiServer {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		rights.Skip(t, "KUBEBUILDER_ASSETS is not set; make envtest builds them into bin/envtest")
	}
	dir := t.TempDir()
	s := &apiServer{dir: dir}
	s.makeCA(t, dir)
	tokens := adminToken + ",admin,admin,system:masters\n" +
		bootstrapToken + `,system:bootstrap:abcdef,bootstrap,"system:bootstrappers:slipway:ns"` + "\n"
	writeFile(t, filepath.Join(dir, "tokens"), tokens)
	etcd, peer := fmt.Sprintf("http://127.0.0.1:%d", shared.FreePort(t)), fmt.Sprintf("http://127.0.0.1:%d", shared.FreePort(t))
	start(t, filepath.Join(assets, "etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", etcd, "--advertise-client-urls", etcd, "--listen-peer-urls", peer)
	port := shared.FreePort(t)
	s.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	start(t, filepath.Join(assets, "kube-apiserver"), "--etcd-servers", etcd, "--secure-port", fmt.Sprint(port), "--bind-address", "127.0.0.1",
		"--cert-dir", filepath.Join(dir, "serving"), "--client-ca-file", filepath.Join(dir, "ca.crt"), "--token-auth-file", filepath.Join(dir, "tokens"),
		"--service-account-issuer", "https://localhost", "--service-account-key-file", filepath.Join(dir, "ca.key"),
		"--service-account-signing-key-file", filepath.Join(dir, "ca.key"), "--service-cluster-ip-range", "10.0.0.0/24",
		"--authorization-mode", "RBAC", "--disable-admission-plugins", "ServiceAccount")
	client, err := dynamic.NewForConfig(s.config(adminToken))
	if err != nil {
		t.Fatal(err)
	}
	s.client = client
	s.awaitReady(t)
	s.installCRD(t, lacks)
	return s
}

// authority is the base64 PEM by which the server, which signed itself, is verified.
func (s *apiServer) authority(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "serving", "apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(data)
}

func (s *apiServer) bootstrapKubeconfig(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "%s", certificate-authority-data: "%s"}}]
users: [{name: u, user: {token: "%s"}}]
`, s.url, s.authority(t), bootstrapToken)
}

func (s *apiServer) config(token string) *rest.Config {
	return &rest.Config{Host: s.url, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
}

func (s *apiServer) awaitReady(t *testing.T) {
	t.Helper()
	client, err := rest.HTTPClientFor(s.config(adminToken))
	if err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the API server is ready", func() error {
		response, err := client.Get(s.url + "/readyz")
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", response.StatusCode)
		}
		return nil
	})
}

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func (s *apiServer) installCRD(t *testing.T, lacks []string) {
	t.Helper()
	data, err := os.ReadFile("../../../config/crd/bases/infrastructure.slipway.dev_hosts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, crd); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, version := range versions {
		for _, name := range lacks {
			unstructured.RemoveNestedField(version.(map[string]any), "schema", "openAPIV3Schema", "properties", "status", "properties", name) //nolint:forcetypeassert // a CRD has no others
		}
	}
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	s.create(t, crds, "", crd.Object)
	s.create(t, namespaces, "", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "ns"}})
	poll.Until(t, "Hosts are served", func() error {
		_, err := s.client.Resource(hosts).Namespace("ns").List(t.Context(), listAll)
		return err
	})
}

func (s *apiServer) create(t *testing.T, gvr schema.GroupVersionResource, namespace string, object map[string]any) {
	t.Helper()
	_, err := s.client.Resource(gvr).Namespace(namespace).Create(t.Context(), &unstructured.Unstructured{Object: object}, createNow)
	if err != nil {
		t.Fatalf("create %s: %v", gvr.Resource, err)
	}
}

func (s *apiServer) makeCA(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if s.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	s.caKey = key
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "ca.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	writeFile(t, filepath.Join(dir, "ca.key"), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})))
}

// sign returns a client certificate for a request, valid for the given time.
func (s *apiServer) sign(t *testing.T, request []byte, life time.Duration) []byte {
	t.Helper()
	block, _ := pem.Decode(request)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Error(err)
		return nil
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: csr.Subject, NotBefore: time.Now().Add(-time.Second), NotAfter: time.Now().Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, s.ca, csr.PublicKey, s.caKey)
	if err != nil {
		t.Error(err)
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// start runs a server until the end of the test. Its output is shown only when
// the test fails.
func start(t *testing.T, path string, args ...string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), filepath.Base(path)+".log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			if text, err := os.ReadFile(log); err == nil {
				t.Logf("%s:\n%s", path, text[max(0, len(text)-4000):])
			}
		}
		_ = out.Close()
	})
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
