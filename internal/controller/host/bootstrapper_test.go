package host_test

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// TestStolenTokenEnrollsNoOtherHost: a token that is bound to a host may file requests, by
// the rights of the release, and gets a certificate for that host alone; nor does it read
// anything.
func TestStolenTokenEnrollsNoOtherHost(t *testing.T) {
	w := newWorld(t)
	w.installAgentRoles()
	thief := w.token(infrav1.HostBootstrapGroup(w.namespace, "h1"))
	file := func(name string) *certificatesv1.CertificateSigningRequest {
		t.Helper()
		key, _ := newKey(t)
		csr := w.request(enrollment{host: name}, key, nil)
		poll.Until(t, "the token files a request", func() error { return thief.Create(t.Context(), csr) })
		return csr
	}
	if got := w.decide(file("host-0")); got.decision != "Denied" || !strings.Contains(got.message, "is bound to other hosts of namespace "+w.namespace+": make one for host host-0") {
		t.Errorf("for another name: %+v", got)
	}
	if got := w.decide(file("h1")); got.decision != "Approved" {
		t.Errorf("for its host: %+v", got)
	}
	// Its host is enrolled: the token is worth nothing to another machine.
	if got := w.decide(file("h1")); got.decision != "Denied" || !strings.Contains(got.message, "another key") {
		t.Errorf("for its host, once that is enrolled: %+v", got)
	}
	hosts := &infrav1.HostList{}
	if err := env.Client.List(t.Context(), hosts, client.InNamespace(w.namespace)); err != nil || len(hosts.Items) != 1 {
		t.Errorf("%d hosts, want one: %v", len(hosts.Items), err)
	}
	for _, list := range []client.ObjectList{&infrav1.HostList{}, &corev1.SecretList{}} {
		if err := thief.List(t.Context(), list, client.InNamespace(w.namespace)); !apierrors.IsForbidden(err) {
			t.Errorf("the token lists %T: %v", list, err)
		}
	}
}

// token is a client with what a bootstrap token of the groups says, and no other rights.
func (w *world) token(groups ...string) client.Client {
	w.t.Helper()
	w.anyToken()
	c, err := client.New(env.As("system:bootstrap:abcdef", append(groups, infrav1.BootstrapGroup, "system:bootstrappers")...), client.Options{Scheme: env.Scheme})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// anyToken is the Secret of the token abcdef, which has no limit. What it is good for is
// what its users say, for whom requests are filed.
func (w *world) anyToken() {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken}
	if err := client.IgnoreAlreadyExists(env.Client.Create(w.t.Context(), secret)); err != nil {
		w.t.Fatal(err)
	}
}

// installAgentRoles gives agents and tokens the rights of the release.
func (w *world) installAgentRoles() {
	w.t.Helper()
	data, err := config.FS.ReadFile("rbac/agent_roles.yaml")
	if err != nil {
		w.t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			w.t.Fatal(err)
		}
		if err := client.IgnoreAlreadyExists(env.Client.Create(w.t.Context(), object)); err != nil {
			w.t.Fatal(err)
		}
	}
}
