package admission_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// TestTheEngineWritesOnlyItsOwnSecrets: its role alone would let it make a token of any
// ServiceAccount, and put another kubeconfig in the place of a cluster's.
func TestTheEngineWritesOnlyItsOwnSecrets(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	env.BindIn(t, engine, namespace, rights.StepsRole)
	env.BindIn(t, engine, metav1.NamespaceSystem, rights.StepsRole)
	secret := func(name string, kind corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: kind}
	}
	token := secret("token", corev1.SecretTypeServiceAccountToken)
	token.Namespace, token.Annotations = metav1.NamespaceSystem, map[string]string{corev1.ServiceAccountNameKey: "clusterrole-aggregation-controller"}
	refused := func(err error) error {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "lifecycle.slipway.dev/* only") {
			return fmt.Errorf("want it refused, got %w", err)
		}
		return nil
	}
	// The API server takes a moment to learn of the policy.
	poll.Until(t, "a token is refused", func() error {
		_ = env.Client.Delete(t.Context(), token.DeepCopy())
		return refused(engineClient.Create(t.Context(), token.DeepCopy()))
	})
	if err := refused(engineClient.Create(t.Context(), secret("opaque", ""))); err != nil {
		t.Error(err)
	}
	kubeconfig := secret("edge-kubeconfig", clusterv1.ClusterSecretType)
	if err := env.Client.Create(t.Context(), kubeconfig); err != nil {
		t.Fatal(err)
	}
	kubeconfig.Data = map[string][]byte{"value": []byte("another")}
	if err := refused(engineClient.Update(t.Context(), kubeconfig)); err != nil {
		t.Error(err)
	}
	if err := refused(engineClient.Delete(t.Context(), kubeconfig)); err != nil {
		t.Error(err)
	}
	for _, kind := range []corev1.SecretType{"lifecycle.slipway.dev/job-log", "lifecycle.slipway.dev/archive", "lifecycle.slipway.dev/archive-part"} {
		own := secret("own", kind)
		if err := engineClient.Create(t.Context(), own); err != nil {
			t.Fatal(err)
		}
		own.Data = map[string][]byte{"a": []byte("b")}
		if err := engineClient.Update(t.Context(), own); err != nil {
			t.Error(err)
		}
		if err := engineClient.Delete(t.Context(), own, client.Preconditions{UID: &own.UID}); err != nil {
			t.Error(err)
		}
	}
	// Others are not its business.
	if err := env.Client.Create(t.Context(), secret("opaque", "")); err != nil {
		t.Error(err)
	}
}
