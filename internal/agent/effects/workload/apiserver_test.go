package workload_test

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/slipway-dev/slipway/internal/agent/effects/workload"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// cluster is an API server that authorizes nodes as kubeadm's does.
func cluster(t *testing.T) (*envtest.Environment, kubernetes.Interface) {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		rights.Skip(t, "KUBEBUILDER_ASSETS is not set; make envtest builds them into bin/envtest")
	}
	env := &envtest.Environment{}
	env.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "Node", "RBAC").
		Append("enable-admission-plugins", "NodeRestriction").Append("disable-admission-plugins", "ServiceAccount")
	config, err := testenv.StartServer(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return env, admin
}

// kubelet is the client that a kubelet's credential gives for the Node of that name.
func kubelet(t *testing.T, env *envtest.Environment, name string) *workload.Client {
	t.Helper()
	user, err := env.AddUser(envtest.User{Name: "system:node:host-1", Groups: []string{"system:nodes"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := workload.New(user.Config(), name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newPod(t *testing.T, admin kubernetes.Interface, name, node string) *corev1.Pod {
	t.Helper()
	pod, err := admin.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A budget counts pods that run only.
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	if pod, err = admin.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return pod
}

// TestWhatAKubeletsCredentialMayDo holds that an upgrade needs no right besides the
// kubelet's, and that this one ends at the host.
func TestWhatAKubeletsCredentialMayDo(t *testing.T) {
	env, admin := cluster(t)
	ctx := t.Context()
	for _, name := range []string{"host-1", "host-2"} {
		if _, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	own, budgeted, foreign := newPod(t, admin, "own", "host-1"), newPod(t, admin, "budgeted", "host-1"), newPod(t, admin, "foreign", "host-2")
	one := intstr.FromInt32(1)
	_, err := admin.PolicyV1().PodDisruptionBudgets("default").Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "budgeted"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := kubelet(t, env, "host-1")

	if version, err := c.ServerVersion(ctx); err != nil || version == "" {
		t.Errorf("version %q, %v", version, err)
	}
	cordon(t, c)
	pods, err := c.Pods(ctx)
	if err != nil || len(pods) != 2 {
		t.Errorf("pods %v, %v", pods, err)
	}
	if err := c.Evict(ctx, budgeted); !apierrors.IsTooManyRequests(err) {
		t.Errorf("eviction against a budget: %v", err)
	}
	stale := own.DeepCopy()
	stale.UID = "another"
	if err := c.Evict(ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("eviction of a pod that has another UID: %v", err)
	}
	if err := c.Evict(ctx, own); err != nil {
		t.Errorf("eviction of an own pod: %v", err)
	}
	if err := c.Evict(ctx, foreign); !apierrors.IsForbidden(err) {
		t.Errorf("eviction of a pod on another Node: %v", err)
	}
	other := kubelet(t, env, "host-2")
	if node, err := other.Get(ctx); err == nil {
		err = other.SetUnschedulable(ctx, node, true, "a", "b")
		if !apierrors.IsForbidden(err) {
			t.Errorf("cordon of another Node: %v", err)
		}
	}
}

// cordon takes the client through cordon, conflict and uncordon.
func cordon(t *testing.T, c *workload.Client) {
	t.Helper()
	ctx := t.Context()
	node, err := c.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetUnschedulable(ctx, node, true, "slipway.dev/x", "v"); err != nil {
		t.Fatalf("cordon: %v", err)
	}
	if err := c.SetUnschedulable(ctx, node, true, "slipway.dev/x", "v"); !apierrors.IsConflict(err) {
		t.Errorf("a write on a stale read: %v", err)
	}
	if node, err = c.Get(ctx); err != nil || !node.Spec.Unschedulable || node.Annotations["slipway.dev/x"] != "v" {
		t.Errorf("after the cordon: %+v, %v, %v", node.Spec, node.Annotations, err)
	}
	if err := c.SetUnschedulable(ctx, node, false, "slipway.dev/x", ""); err != nil {
		t.Fatalf("uncordon: %v", err)
	}
	if node, err = c.Get(ctx); err != nil || node.Spec.Unschedulable || len(node.Annotations) != 0 {
		t.Errorf("after the uncordon: %+v, %v, %v", node.Spec, node.Annotations, err)
	}
}

// A Node is deleted with the administrator's credential, and only while it is the one that was seen. A worker has
// no such credential, and the kubelet's does not do.
func TestNodeIsDeletedByAnAdministrator(t *testing.T) {
	env, admin := cluster(t)
	newNode := func() *corev1.Node {
		t.Helper()
		node, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "host-1"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return node
	}
	credential := func(name string, groups ...string) string {
		t.Helper()
		user, err := env.AddUser(envtest.User{Name: name, Groups: groups}, nil)
		if err != nil {
			t.Fatal(err)
		}
		config, err := user.KubeConfig()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "admin.conf")
		if err := os.WriteFile(path, config, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	administrator, node := credential("admin", "system:masters"), newNode()
	if err := workload.DeleteNode(t.Context(), filepath.Join(t.TempDir(), "admin.conf"), node); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a credential: %v", err)
	}
	if err := workload.DeleteNode(t.Context(), credential("system:node:host-1", "system:nodes"), node); !apierrors.IsForbidden(err) {
		t.Errorf("with the kubelet's credential: %v", err)
	}
	if err := workload.DeleteNode(t.Context(), administrator, node); err != nil {
		t.Errorf("with the administrator's: %v", err)
	}
	later := newNode()
	if err := workload.DeleteNode(t.Context(), administrator, node); !apierrors.IsConflict(err) {
		t.Errorf("of a Node that was made anew since: %v", err)
	}
	if err := workload.DeleteNode(t.Context(), administrator, later); err != nil {
		t.Error(err)
	}
	if err := workload.DeleteNode(t.Context(), administrator, later); !apierrors.IsNotFound(err) {
		t.Errorf("of one that is gone: %v", err)
	}
}

// TestProviderIDIsGivenOnce holds that an adoption needs no right besides the kubelet's
// either, and that nobody's providerID is ever replaced.
func TestProviderIDIsGivenOnce(t *testing.T) {
	env, admin := cluster(t)
	ctx := t.Context()
	for _, name := range []string{"host-1", "host-2"} {
		if _, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c := kubelet(t, env, "host-1")
	node, err := c.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	anew := node.DeepCopy()
	anew.UID = "another"
	if err := c.SetProviderID(ctx, anew, "slipway://ns/host-1/a"); !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
		t.Errorf("for a Node that was made anew: %v", err)
	}
	for _, try := range []struct {
		id      string
		refused bool
	}{{"slipway://ns/host-1/a", false}, {"slipway://ns/host-1/a", false}, {"slipway://ns/host-1/b", true}} {
		if err := c.SetProviderID(ctx, node, try.id); apierrors.IsInvalid(err) != try.refused || (err == nil) == try.refused {
			t.Errorf("%s: %v", try.id, err)
		}
	}
	if node, err = c.Get(ctx); err != nil || node.Spec.ProviderID != "slipway://ns/host-1/a" {
		t.Errorf("providerID %q, %v", node.Spec.ProviderID, err)
	}
	if err := kubelet(t, env, "host-2").SetProviderID(ctx, &corev1.Node{}, "slipway://ns/host-2/a"); err == nil {
		t.Error("a kubelet gives another Node its providerID")
	}
}

// TestConnectReadsTheNameOfTheNode goes by the certificate, as kubeadm leaves it.
func TestConnectReadsTheNameOfTheNode(t *testing.T) {
	write := func(commonName string) string {
		key, err := keyutil.MakeEllipticPrivateKeyPEM()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "kubelet.conf")
		pemFile := filepath.Join(filepath.Dir(path), "kubelet-client-current.pem")
		if err := os.WriteFile(pemFile, append(certificate(t, key, commonName), key...), 0o600); err != nil {
			t.Fatal(err)
		}
		c := clientcmdapi.NewConfig()
		c.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://10.0.0.1:6443"}
		c.AuthInfos["a"] = &clientcmdapi.AuthInfo{ClientCertificate: pemFile, ClientKey: pemFile}
		c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "a"}
		c.CurrentContext = "x"
		if err := clientcmd.WriteToFile(*c, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if c, err := workload.Connect(write("system:node:host-7.example")); err != nil || c.Name != "host-7.example" {
		t.Errorf("got %+v, %v", c, err)
	}
	for _, path := range []string{write("kubernetes-admin"), filepath.Join(t.TempDir(), "none")} {
		if _, err := workload.Connect(path); err == nil {
			t.Errorf("%s gives a client", path)
		}
	}
}

func certificate(t *testing.T, key []byte, commonName string) []byte {
	t.Helper()
	parsed, err := keyutil.ParsePrivateKeyPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: commonName}, NotAfter: time.Now().Add(time.Hour)}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		t.Fatalf("%T does not sign", parsed)
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}
