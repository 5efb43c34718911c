package enroll

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

func TestEnsure(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	token, err := NewToken()
	if err != nil {
		t.Fatal(err)
	}
	var secret corev1.Secret
	id, _, _ := strings.Cut(token, ".")
	for _, ttl := range []time.Duration{time.Hour, 2 * time.Hour} { // the second renews it
		before := time.Now()
		if err := Ensure(t.Context(), c, Token{Value: token, Namespace: "prod", Uses: 2, Life: ttl}); err != nil {
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
	if uses := secret.Annotations[infrav1.TokenUsesAnnotation]; uses != "2" {
		t.Errorf("uses: %q", uses)
	}
	if secret.Type != corev1.SecretTypeBootstrapToken || id+"."+field(&secret, bootstrapapi.BootstrapTokenSecretKey) != token {
		t.Errorf("secret of type %s does not hold the token", secret.Type)
	}
	// It may enroll hosts and nothing else: no signing, no joining of nodes.
	if field(&secret, bootstrapapi.BootstrapTokenUsageSigningKey) != "" || field(&secret, bootstrapapi.BootstrapTokenExtraGroupsKey) != "system:bootstrappers:slipway,system:bootstrappers:slipway:prod" {
		t.Errorf("usages and groups: %v", secret.StringData)
	}
	// Bound to hosts, it enrolls no other.
	if err := Ensure(t.Context(), c, Token{Value: token, Namespace: "prod", Hosts: []string{"host-1", "host-2.example.com"}, Life: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(&secret), &secret); err != nil {
		t.Fatal(err)
	}
	if groups := field(&secret, bootstrapapi.BootstrapTokenExtraGroupsKey); groups != "system:bootstrappers:slipway,system:bootstrappers:slipway:prod:host-1,system:bootstrappers:slipway:prod:host-2:example:com" {
		t.Errorf("groups: %s", groups)
	}
}

func TestEnsureRefusesHostsItCannotBind(t *testing.T) {
	token, err := NewToken()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Host_1": "is not valid", "a,system:masters": "is not valid", "": "is not valid", "a:b": "is not valid",
		strings.Repeat("a.", 126) + "a": "too long together",
	} {
		err := Ensure(t.Context(), fake.NewClientBuilder().Build(), Token{Value: token, Namespace: "prod", Hosts: []string{"host-1", name}, Life: time.Hour})
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

func TestEnsureRefusesAMalformedToken(t *testing.T) {
	for _, token := range []string{"", "abc", "abcdef.0123456789ABCDEF", "abcdef.0123456789abcdef\n"} {
		if err := Ensure(t.Context(), fake.NewClientBuilder().Build(), Token{Value: token, Namespace: "default", Life: time.Hour}); err == nil || !strings.Contains(err.Error(), "sixteen characters") {
			t.Errorf("%q: %v", token, err)
		}
	}
	for _, uses := range []int{-1, infrav1.MaxTokenUses + 1} {
		err := Ensure(t.Context(), fake.NewClientBuilder().Build(), Token{Value: "abcdef.0123456789abcdef", Namespace: "default", Uses: uses, Life: time.Hour})
		if err == nil || !strings.Contains(err.Error(), "from 0 to 500") {
			t.Errorf("%d uses: %v", uses, err)
		}
	}
}

// TestEndLocal: of the tokens of local hosts one stays; those that somebody made for hosts
// of their own are theirs.
func TestEndLocal(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	for id, local := range map[string]bool{"aaaaaa": true, "bbbbbb": true, "cccccc": false} {
		if err := Ensure(t.Context(), c, Token{Value: id + ".0123456789abcdef", Namespace: "default", Life: time.Hour, Local: local}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ but, want string }{
		{"bbbbbb.0123456789abcdef", "bootstrap-token-bbbbbb bootstrap-token-cccccc"},
		{"", "bootstrap-token-cccccc"},
	} {
		if err := EndLocal(t.Context(), c, tc.but); err != nil {
			t.Fatal(err)
		}
		var tokens corev1.SecretList
		if err := c.List(t.Context(), &tokens, client.InNamespace("kube-system")); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, token := range tokens.Items {
			names = append(names, token.Name)
		}
		if got := strings.Join(names, " "); got != tc.want {
			t.Errorf("all but %q: %s, want %s", tc.but, got, tc.want)
		}
	}
}
