package enroll

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestEnsureToken(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	token, err := NewToken()
	if err != nil {
		t.Fatal(err)
	}
	var secret corev1.Secret
	id, _, _ := strings.Cut(token, ".")
	for _, ttl := range []time.Duration{time.Hour, 2 * time.Hour} { // the second renews it
		before := time.Now()
		if err := EnsureToken(t.Context(), c, token, "prod", nil, ttl); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "bootstrap-token-" + id}, &secret); err != nil {
			t.Fatal(err)
		}
		expires, err := time.Parse(time.RFC3339, field(&secret, bootstrapapi.BootstrapTokenExpirationKey))
		if err != nil || expires.Before(before.Add(ttl-time.Second)) || expires.After(time.Now().Add(ttl)) {
			t.Errorf("expires %s (%v), want %s from now", expires, err, ttl)
		}
	}
	if secret.Type != corev1.SecretTypeBootstrapToken || id+"."+field(&secret, bootstrapapi.BootstrapTokenSecretKey) != token {
		t.Errorf("secret of type %s does not hold the token", secret.Type)
	}
	// It may enroll hosts and nothing else: no signing, no joining of nodes.
	if field(&secret, bootstrapapi.BootstrapTokenUsageSigningKey) != "" || field(&secret, bootstrapapi.BootstrapTokenExtraGroupsKey) != "system:bootstrappers:slipway,system:bootstrappers:slipway:prod" {
		t.Errorf("usages and groups: %v", secret.StringData)
	}
	// Bound to hosts, it enrolls no other.
	if err := EnsureToken(t.Context(), c, token, "prod", []string{"host-1", "host-2.example.com"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(&secret), &secret); err != nil {
		t.Fatal(err)
	}
	if groups := field(&secret, bootstrapapi.BootstrapTokenExtraGroupsKey); groups != "system:bootstrappers:slipway,system:bootstrappers:slipway:prod:host-1,system:bootstrappers:slipway:prod:host-2:example:com" {
		t.Errorf("groups: %s", groups)
	}
}

func TestEnsureTokenRefusesHostsItCannotBind(t *testing.T) {
	token, err := NewToken()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Host_1": "is not valid", "a,system:masters": "is not valid", "": "is not valid", "a:b": "is not valid",
		strings.Repeat("a.", 126) + "a": "too long together",
	} {
		err := EnsureToken(t.Context(), fake.NewClientBuilder().Build(), token, "prod", []string{"host-1", name}, time.Hour)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", name, err, want)
		}
	}
}

// field of a Secret, which the fake server does not move from stringData to data.
func field(s *corev1.Secret, key string) string {
	if v, ok := s.StringData[key]; ok {
		return v
	}
	return string(s.Data[key])
}

func TestEnsureTokenRefusesAMalformedOne(t *testing.T) {
	for _, token := range []string{"", "abc", "abcdef.0123456789ABCDEF", "abcdef.0123456789abcdef\n"} {
		if err := EnsureToken(t.Context(), fake.NewClientBuilder().Build(), token, "default", nil, time.Hour); err == nil || !strings.Contains(err.Error(), "bootstrap-token") {
			t.Errorf("EnsureToken(%q) = %v, want an error that names the file", token, err)
		}
	}
}
