package webhook_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// TestTheManagerChangesOnlyTokensOfHosts: whoever takes over slipway-manager changes and
// deletes no Secret of anybody else with its rights, and gives no token more uses.
func TestTheManagerChangesOnlyTokensOfHosts(t *testing.T) {
	testenv.Skip(t)
	const denied = "no other Secret is its own to change"
	theManager := as(t, manager)
	secret := func(namespace, name string, kind corev1.SecretType, annotations map[string]string) *corev1.Secret {
		t.Helper()
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations}, Type: kind,
			Data: map[string][]byte{"auth-extra-groups": []byte("system:bootstrappers:slipway:prod"), "expiration": []byte("2026-01-01T00:00:00Z")},
		}
		if kind == infrav1.HandOverSecretType {
			s.Labels = map[string]string{infrav1.PurposeLabel: infrav1.HandOverPurpose}
		}
		if err := env.Client.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	limited := map[string]string{infrav1.TokenUsesAnnotation: "2", infrav1.TokenUsedByAnnotation: "a"}
	own := func(name string) *corev1.Secret {
		return secret(metav1.NamespaceSystem, name, corev1.SecretTypeBootstrapToken, limited)
	}
	change := func(s *corev1.Secret, how func(*corev1.Secret)) error {
		changed := s.DeepCopy()
		how(changed)
		return theManager.Patch(t.Context(), changed, client.MergeFrom(s), client.DryRunAll)
	}
	annotate := func(key, value string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, value) }
	}
	count := annotate(infrav1.TokenUsedByAnnotation, "a b")
	namespace := env.Namespace(t)
	kubeconfig := secret(namespace, "prod-kubeconfig", "cluster.x-k8s.io/secret", nil)
	poll.Until(t, "the policy of tokens holds", func() error { return refusedBecause(change(kubeconfig, count), denied) })

	token := own("bootstrap-token-aaaaaa")
	for name, tc := range map[string]struct {
		secret  *corev1.Secret
		how     func(*corev1.Secret)
		refused bool
	}{
		"one more use":           {secret: token, how: count},
		"a hand-over":            {secret: secret(namespace, infrav1.HandOverSecretName, infrav1.HandOverSecretType, nil), how: annotate("a", "b")},
		"more uses":              {token, annotate(infrav1.TokenUsesAnnotation, "3"), true},
		"no limit":               {token, func(s *corev1.Secret) { delete(s.Annotations, infrav1.TokenUsesAnnotation) }, true},
		"a record that is less":  {token, annotate(infrav1.TokenUsedByAnnotation, "b"), true},
		"no record":              {token, func(s *corev1.Secret) { delete(s.Annotations, infrav1.TokenUsedByAnnotation) }, true},
		"other groups":           {token, func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:bootstrappers:kubeadm") }, true},
		"another expiry":         {token, func(s *corev1.Secret) { s.Data["expiration"] = []byte("2099-01-01T00:00:00Z") }, true},
		"a token of others":      {secret(metav1.NamespaceSystem, "bootstrap-token-bbbbbb", corev1.SecretTypeBootstrapToken, nil), annotate(infrav1.TokenUsesAnnotation, "2"), true},
		"a Secret like a token":  {secret(namespace, "bootstrap-token-cccccc", corev1.SecretTypeBootstrapToken, limited), count, true},
		"another kind of Secret": {secret(metav1.NamespaceSystem, "bootstrap-token-dddddd", corev1.SecretTypeOpaque, limited), count, true},
	} {
		err := change(tc.secret, tc.how)
		if tc.refused {
			err = refusedBecause(err, denied)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		deleted := theManager.Delete(t.Context(), tc.secret, client.DryRunAll)
		if tc.secret != token {
			deleted = refusedBecause(deleted, denied)
		}
		if deleted != nil {
			t.Errorf("%s: delete: %v", name, deleted)
		}
	}
	if err := theManager.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}); err == nil || !strings.Contains(err.Error(), "cannot create resource") {
		t.Errorf("create: %v", err)
	}
	// Others are none of the policy's business.
	if err := env.Client.Delete(t.Context(), kubeconfig); err != nil {
		t.Error(err)
	}
}
