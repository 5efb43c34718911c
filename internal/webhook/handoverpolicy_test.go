package webhook_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// TestWhoWritesSecretsHandsNoHostOver: a tenant who may write Secrets leads no host to a
// management cluster of their own, neither by a Secret of their own nor by an order of
// somebody else.
func TestWhoWritesSecretsHandsNoHostOver(t *testing.T) {
	testenv.Skip(t)
	const denied = "may not handover hosts.infrastructure.slipway.dev in namespace "
	namespace := env.Namespace(t)
	writer := func(name string, rules ...rbacv1.PolicyRule) client.Client {
		t.Helper()
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "create", "update", "patch"}})
		env.GrantIn(t, name, namespace, rules...)
		return as(t, name)
	}
	tenant := writer("tina")
	mover := writer("max", rbacv1.PolicyRule{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"hosts"}, Verbs: []string{"handover"}})
	secret := func(name, kubeconfig string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{infrav1.HandOverKubeconfigKey: []byte(kubeconfig)},
		}
	}
	order := func() *corev1.Secret {
		s := secret(infrav1.HandOverSecretName, "target")
		s.Type, s.Labels = infrav1.HandOverSecretType, map[string]string{infrav1.PurposeLabel: infrav1.HandOverPurpose}
		s.Data[infrav1.HandOverExpirationKey] = []byte("2099-01-01T00:00:00Z")
		return s
	}
	poll.Until(t, "the policy of hand-overs holds", func() error {
		return refusedBecause(tenant.Create(t.Context(), order(), client.DryRunAll), denied+namespace)
	})
	if err := tenant.Create(t.Context(), secret("database", "target")); err != nil {
		t.Errorf("another Secret: %v", err)
	}
	for want, spoil := range map[string]func(*corev1.Secret){
		"type: Secret slipway-hand-over must have type infrastructure.slipway.dev/hand-over, not Opaque": func(s *corev1.Secret) { s.Type = "" },
		"must have type infrastructure.slipway.dev/hand-over, not example.com/other":                     func(s *corev1.Secret) { s.Type = "example.com/other" },
		"label infrastructure.slipway.dev/purpose=hand-over is missing":                                  func(s *corev1.Secret) { s.Labels = nil },
		"key expiration is missing": func(s *corev1.Secret) { delete(s.Data, infrav1.HandOverExpirationKey) },
	} {
		s := order()
		spoil(s)
		if err := mover.Create(t.Context(), s, client.DryRunAll); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("want a refusal because %q, got %v", want, err)
		}
	}
	stored := order()
	if err := mover.Create(t.Context(), stored); err != nil {
		t.Fatalf("with the verb: %v", err)
	}
	change := func(by client.Client, how func(*corev1.Secret)) error {
		changed := stored.DeepCopy()
		how(changed)
		return by.Patch(t.Context(), changed, client.MergeFrom(stored), client.DryRunAll)
	}
	lead := func(s *corev1.Secret) { s.Data[infrav1.HandOverKubeconfigKey] = []byte("elsewhere") }
	plainly := func(s *corev1.Secret) { s.StringData = map[string]string{infrav1.HandOverKubeconfigKey: "elsewhere"} }
	prolong := func(s *corev1.Secret) { s.Data[infrav1.HandOverExpirationKey] = []byte("2100-01-01T00:00:00Z") }
	sign := func(s *corev1.Secret) { s.Data[infrav1.HandOverSignatureKey] = []byte("signature") }
	for name, tc := range map[string]struct {
		by      client.Client
		how     func(*corev1.Secret)
		refused bool
	}{
		"a tenant leads them elsewhere":          {tenant, lead, true},
		"a tenant leads them by plain text":      {tenant, plainly, true},
		"a tenant takes the target away":         {tenant, func(s *corev1.Secret) { s.Data = nil }, true},
		"a tenant prolongs it":                   {tenant, prolong, true},
		"a tenant takes the purpose away":        {tenant, func(s *corev1.Secret) { s.Labels = nil }, true},
		"who may hand over prolongs it":          {mover, prolong, false},
		"the manager taken over prolongs it":     {as(t, manager), prolong, true},
		"who may hand over leads them elsewhere": {mover, lead, false},
		"the manager signs":                      {as(t, manager), sign, false},
		"the manager taken over leads them":      {as(t, manager), lead, true},
	} {
		err := change(tc.by, tc.how)
		if tc.refused {
			err = refusedBecause(err, denied+namespace)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
