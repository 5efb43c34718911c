package privilege

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unreached has nobody answer the engine's webhooks: namespaces that may hold Clusters stay,
// those of providers, its own among them, can go.
func (e *engine) unreached(t *testing.T) {
	providers := []string{engineNamespace, "slipway-system", "capi-system", "capi-kubeadm-bootstrap-system", "capi-kubeadm-control-plane-system", "cert-manager"}
	labelled := map[string]string{"cluster.x-k8s.io/provider": "cluster-api"}
	for _, name := range append([]string{"team-a", "team-b"}, providers...) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == "team-b" {
			// Who may delete a namespace may often label it, too.
			namespace.Labels = labelled
		}
		if err := client.IgnoreAlreadyExists(e.Client.Create(t.Context(), namespace)); err != nil {
			t.Fatal(err)
		}
	}
	webhooks := &admissionv1.ValidatingWebhookConfiguration{}
	if err := e.Client.Get(t.Context(), client.ObjectKey{Name: "slipway-lifecycle-validating-webhook-configuration"}, webhooks); err != nil {
		t.Fatal(err)
	}
	for i := range webhooks.Webhooks {
		webhooks.Webhooks[i].ClientConfig.URL = ptr.To("https://127.0.0.1:1/")
	}
	if err := e.Client.Update(t.Context(), webhooks); err != nil {
		t.Fatal(err)
	}
	remove := func(ctx context.Context, name string) error {
		return e.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.DryRunAll)
	}
	for _, name := range []string{"team-a", "team-b"} {
		e.eventually("namespace "+name+" stays", func(ctx context.Context) error {
			if err := remove(ctx, name); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed calling webhook") {
				return fmt.Errorf("its deletion answers %w", err)
			}
			return nil
		})
	}
	for _, name := range providers {
		if err := remove(t.Context(), name); err != nil {
			t.Errorf("namespace %s cannot be deleted: %v", name, err)
		}
	}
}
