package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

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

// watchConverted watches as informers do, from the objects that are there on. There is no
// watch cache of this version.
func (p *plane) watchConverted(t *testing.T) {
	w, err := p.dynamic.Resource(clusters("v1beta1")).Namespace(testNamespace).Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	})
	must(t, err)
	defer w.Stop()
	next := func(want watch.EventType) *unstructured.Unstructured {
		e := poll.Receive(t, string(want), w.ResultChan())
		obj, ok := e.Object.(*unstructured.Unstructured)
		if e.Type != want || !ok || obj.GetAPIVersion() != "cluster.x-k8s.io/v1beta1" {
			t.Fatalf("got %s of %v, want %s in v1beta1", e.Type, e.Object, want)
		}
		return obj
	}
	if got := next(watch.Added).GetName(); got != "kept" {
		t.Errorf("the first object is %q", got)
	}
	if _, ok := next(watch.Bookmark).GetAnnotations()[metav1.InitialEventsAnnotationKey]; !ok {
		t.Error("the bookmark does not end the initial events")
	}
	_, err = p.dynamic.Resource(clusters("v1beta2")).Namespace(testNamespace).Patch(t.Context(), "kept", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"changed":"yes"}}}`), metav1.PatchOptions{})
	must(t, err)
	// Controllers change the object, too: next fails when the label never comes.
	for next(watch.Modified).GetLabels()["changed"] != "yes" {
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
		Subject: pkix.Name{CommonName: "slipway:host:tenant:h1:0123", Organization: []string{"slipway:hosts"}},
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
