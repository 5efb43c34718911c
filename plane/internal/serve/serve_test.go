package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/plane/internal/component"
)

const testNamespace = "tenant"

// TestPlane runs a whole plane three times on the same directory. The parts are
// one test because a plane takes seconds to come up.
func TestPlane(t *testing.T) {
	dir := t.TempDir()
	args := []string{dir, net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t))), strconv.Itoa(freePort(t))}

	first := start(t, args)
	t.Run("administrator's kubeconfig is private", first.kubeconfigIsPrivate)
	t.Run("health endpoint", first.health)
	t.Run("second plane is refused", first.secondIsRefused)
	t.Run("CRDs carry clusterctl's labels", first.crdLabels)
	t.Run("inventory", first.inventory)
	t.Run("webhooks and conversion", first.webhooks)
	t.Run("invalid objects are refused", first.invalid)
	t.Run("a dead extension shows, and stops nothing", first.extension)
	t.Run("certificate request", first.certificate)
	t.Run("aggregated roles", first.aggregation)
	t.Run("namespace deletion and garbage collection", first.deletion)
	first.memory(t)
	first.kill(t)

	second := start(t, args)
	t.Run("data is kept over kill -9", second.webhooksRead)
	before := second.webhookVersion(t)
	second.stop(t)

	third := start(t, args)
	t.Run("data is kept over a stop", third.webhooksRead)
	if after := third.webhookVersion(t); after != before {
		t.Errorf("manifests were applied again: resourceVersion %s, was %s", after, before)
	}
	third.stop(t)
}

// TestMain lets the test binary be a plane: it is how a plane runs, and upstream
// has package variables that allow only one in the life of a process.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "plane" {
		os.Exit(planeMain(os.Args[2], os.Args[3], os.Args[4]))
	}
	os.Exit(m.Run())
}

func planeMain(dir, bind, webhookPort string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	port, err := strconv.Atoi(webhookPort)
	if err == nil {
		err = Run(ctx, Options{
			StateDir: dir, Bind: bind, WebhookPort: port,
			Progress: func(e component.Event) {
				fmt.Printf("%6.2fs %s %s %s\n", e.Elapsed.Seconds(), e.Component, e.Phase, e.Reason)
			},
		})
	}
	if err != nil {
		fmt.Println("ERROR", err)
		return 1
	}
	return 0
}

// plane is a running plane under test.
type plane struct {
	dir     string
	process *exec.Cmd
	exited  chan error
	client  kubernetes.Interface
	dynamic dynamic.Interface
}

func start(t *testing.T, args []string) *plane {
	t.Helper()
	p := &plane{dir: args[0], exited: make(chan error, 1)}
	log, err := os.OpenFile(filepath.Join(t.ArtifactDir(), "plane.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	p.process = exec.Command(os.Args[0], append([]string{"plane"}, args...)...)
	p.process.Stdout, p.process.Stderr = t.Output(), log
	began := time.Now()
	must(t, p.process.Start())
	t.Cleanup(func() { _ = p.process.Process.Kill() })
	go func() {
		p.exited <- p.process.Wait()
		log.Close()
	}()
	p.waitReady(t)
	t.Logf("ready after %s", time.Since(began))

	config, err := clientcmd.BuildConfigFromFlags("", Kubeconfig(p.dir))
	must(t, err)
	config.QPS = -1
	p.client, err = kubernetes.NewForConfig(config)
	must(t, err)
	p.dynamic, err = dynamic.NewForConfig(config)
	must(t, err)
	return p
}

func (p *plane) waitReady(t *testing.T) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		status, err := ReadStatus(p.dir)
		if err == nil && status.Ready && status.PID == p.process.Process.Pid {
			return
		}
		select {
		case err := <-p.exited:
			t.Fatalf("plane ended while starting: %v", err)
		case <-deadline:
			t.Fatal("plane did not come up")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *plane) kill(t *testing.T) {
	t.Helper()
	must(t, p.process.Process.Kill())
	<-p.exited //nolint:errcheck // it was killed, so it says so
}

func (p *plane) stop(t *testing.T) {
	t.Helper()
	began := time.Now()
	must(t, p.process.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-p.exited:
		must(t, err)
	case <-time.After(30 * time.Second):
		t.Fatal("plane did not stop")
	}
	t.Logf("stopped after %s", time.Since(began))
	status, err := ReadStatus(p.dir)
	must(t, err)
	if status.Ready || status.Error != "" {
		t.Errorf("status after the stop: ready=%v error=%q", status.Ready, status.Error)
	}
}

// memory only reports: the figure depends on what else the machine does.
func (p *plane) memory(t *testing.T) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.process.Process.Pid))
	must(t, err)
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "VmHWM") || strings.HasPrefix(line, "RssAnon") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// webhookVersion changes with every write to a webhook configuration.
func (p *plane) webhookVersion(t *testing.T) string {
	t.Helper()
	c, err := p.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "capi-validating-webhook-configuration", metav1.GetOptions{})
	must(t, err)
	return c.ResourceVersion
}

func (p *plane) kubeconfigIsPrivate(t *testing.T) {
	for _, path := range []string{Kubeconfig(p.dir), filepath.Join(p.dir, "pki", "ca.key"), filepath.Join(p.dir, "pki", "admin.key")} {
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
	}
}

func (p *plane) health(t *testing.T) {
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", Socket(p.dir))
		},
		DisableKeepAlives: true,
	}}
	for path, want := range map[string]string{"/readyz": "ok", "/healthz": "ok", "/metrics": "controller_runtime_reconcile_total"} {
		// The group tells that it is ready just before the endpoint does.
		eventually(t, path+" answers with "+want, func(context.Context) (bool, error) {
			resp, err := client.Get("http://plane" + path)
			if err != nil {
				return false, err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			return resp.StatusCode == http.StatusOK && strings.Contains(string(body), want), err
		})
	}
	status, err := ReadStatus(p.dir)
	must(t, err)
	if !status.Ready || status.PID != p.process.Process.Pid {
		t.Errorf("status: %+v", status)
	}
}

func (p *plane) secondIsRefused(t *testing.T) {
	err := Run(t.Context(), Options{StateDir: p.dir})
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("got %v, want a LockedError", err)
	}
	if want := p.process.Process.Pid; locked.Holder.PID != want {
		t.Errorf("holder %d, want %d", locked.Holder.PID, want)
	}
}

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func (p *plane) crdLabels(t *testing.T) {
	for name, provider := range map[string]string{
		"clusters.cluster.x-k8s.io":                                  "cluster-api",
		"kubeadmconfigs.bootstrap.cluster.x-k8s.io":                  "bootstrap-kubeadm",
		"kubeadmcontrolplanes.controlplane.cluster.x-k8s.io":         "control-plane-kubeadm",
		"clusterresourcesets.addons.cluster.x-k8s.io":                "cluster-api",
		"kubeadmcontrolplanetemplates.controlplane.cluster.x-k8s.io": "control-plane-kubeadm",
	} {
		crd, err := p.dynamic.Resource(crds).Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		labels := crd.GetLabels()
		if _, ok := labels["clusterctl.cluster.x-k8s.io"]; !ok || labels["cluster.x-k8s.io/provider"] != provider {
			t.Errorf("%s: labels %v", name, labels)
		}
	}
}

func (p *plane) inventory(t *testing.T) {
	list, err := p.dynamic.Resource(schema.GroupVersionResource{Group: "clusterctl.cluster.x-k8s.io", Version: "v1alpha3", Resource: "providers"}).
		List(t.Context(), metav1.ListOptions{LabelSelector: "clusterctl.cluster.x-k8s.io/core=inventory"})
	must(t, err)
	got := map[string]string{}
	for _, item := range list.Items {
		version, _, _ := unstructured.NestedString(item.Object, "version")
		got[item.GetNamespace()+"/"+item.GetName()] = version
	}
	for _, want := range []string{"capi-system/cluster-api", "capi-kubeadm-bootstrap-system/bootstrap-kubeadm", "capi-kubeadm-control-plane-system/control-plane-kubeadm"} {
		if !strings.HasPrefix(got[want], "v1.") {
			t.Errorf("inventory lacks %s: %v", want, got)
		}
	}
}

func clusters(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: version, Resource: "clusters"}
}

// webhooks writes the old version of the API, which makes the API server call
// the conversion webhook, the defaulter and the validator.
func (p *plane) webhooks(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testNamespace}}
	_, err := p.client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	must(t, err)
	_, err = p.dynamic.Resource(clusters("v1beta1")).Namespace(testNamespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta1",
		"kind":       "Cluster",
		"metadata":   map[string]any{"name": "kept"},
		"spec": map[string]any{
			"paused": true,
			"controlPlaneRef": map[string]any{
				"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "KubeadmControlPlane", "name": "kept",
			},
		},
	}}, metav1.CreateOptions{})
	must(t, err)
	p.webhooksRead(t)
}

func (p *plane) webhooksRead(t *testing.T) {
	obj, err := p.dynamic.Resource(clusters("v1beta2")).Namespace(testNamespace).Get(t.Context(), "kept", metav1.GetOptions{})
	must(t, err)
	if group, _, _ := unstructured.NestedString(obj.Object, "spec", "controlPlaneRef", "apiGroup"); group != "controlplane.cluster.x-k8s.io" {
		t.Errorf("v1beta2 controlPlaneRef.apiGroup is %q", group)
	}
	obj, err = p.dynamic.Resource(clusters("v1beta1")).Namespace(testNamespace).Get(t.Context(), "kept", metav1.GetOptions{})
	must(t, err)
	// The version comes from the contract label of the CRD.
	if version, _, _ := unstructured.NestedString(obj.Object, "spec", "controlPlaneRef", "apiVersion"); version != "controlplane.cluster.x-k8s.io/v1beta2" {
		t.Errorf("v1beta1 controlPlaneRef.apiVersion is %q", version)
	}
}

// invalid is refused by the validating webhook, not by the schema.
func (p *plane) invalid(t *testing.T) {
	_, err := p.dynamic.Resource(clusters("v1beta2")).Namespace(testNamespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2",
		"kind":       "Cluster",
		"metadata":   map[string]any{"name": "bad"},
		"spec": map[string]any{"clusterNetwork": map[string]any{"pods": map[string]any{"cidrBlocks": []any{"not-a-cidr"}}},
			"controlPlaneRef": map[string]any{"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "bad"}},
	}}, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "not-a-cidr") {
		t.Errorf("got %v, want an Invalid error that names the value", err)
	}
}

// extension registers one that is dead: the plane says so and goes on.
func (p *plane) extension(t *testing.T) {
	configs := p.dynamic.Resource(schema.GroupVersionResource{Group: "runtime.cluster.x-k8s.io", Version: "v1beta2", Resource: "extensionconfigs"})
	_, err := configs.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "runtime.cluster.x-k8s.io/v1beta2",
		"kind":       "ExtensionConfig",
		"metadata":   map[string]any{"name": "ext"},
		"spec":       map[string]any{"clientConfig": map[string]any{"url": "https://127.0.0.1:1"}},
	}}, metav1.CreateOptions{})
	must(t, err)
	eventually(t, "condition says why", func(ctx context.Context) (bool, error) {
		obj, err := configs.Get(ctx, "ext", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Discovered" {
				message, _ := c["message"].(string)
				return c["status"] == "False" && strings.Contains(message, "the connection was refused"), nil
			}
		}
		return false, nil
	})
	eventually(t, "event says so", func(ctx context.Context) (bool, error) {
		list, err := p.client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=ExtensionConfig,reason=NotDiscovered"})
		return err == nil && len(list.Items) > 0, err
	})
}

func (p *plane) certificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "slipway:host:tenant:h1", Organization: []string{"slipway:hosts"}},
	}, key)
	must(t, err)
	requests := p.client.CertificatesV1().CertificateSigningRequests()
	csr, err := requests.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "h1"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
	})
	_, err = requests.UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{})
	must(t, err)
	eventually(t, "certificate is signed", func(ctx context.Context) (bool, error) {
		csr, err := requests.Get(ctx, "h1", metav1.GetOptions{})
		return err == nil && len(csr.Status.Certificate) > 0, err
	})
}

// aggregation needs the ClusterRole controller; upstream's manager role is
// empty without it.
func (p *plane) aggregation(t *testing.T) {
	for _, name := range []string{"edit", "capi-aggregated-manager-role"} {
		role, err := p.client.RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		if len(role.Rules) == 0 {
			t.Errorf("ClusterRole %s has no rules", name)
		}
	}
}

func (p *plane) deletion(t *testing.T) {
	const name = "doomed"
	_, err := p.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	maps := p.client.CoreV1().ConfigMaps(testNamespace)
	owner, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:            "owned",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}},
	}}, metav1.CreateOptions{})
	must(t, err)
	must(t, maps.Delete(t.Context(), owner.Name, metav1.DeleteOptions{}))
	must(t, p.client.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}))
	eventually(t, "owned object is collected", func(ctx context.Context) (bool, error) {
		_, err := maps.Get(ctx, "owned", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	eventually(t, "namespace is gone", func(ctx context.Context) (bool, error) {
		_, err := p.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

func eventually(t *testing.T, what string, f wait.ConditionWithContextFunc) {
	t.Helper()
	began := time.Now()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 40*time.Second, true, f); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	t.Logf("%s after %s", what, time.Since(began).Round(time.Millisecond))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// freePort is a port that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}
