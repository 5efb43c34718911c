package host

import (
	"context"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// TestReplacedSignerIsNoticed holds that a signing key which is replaced or removed is known
// without a restart of the manager: after signerLife, and sooner while a hand-over stands that
// another key has signed. A read that fails leaves the known key.
func TestReplacedSignerIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads int
		var broken error
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				reads++
				if broken != nil {
					return broken
				}
				return c.Get(ctx, key, o, opts...)
			},
		}).Build()
		set := func(letter string) ed25519.PrivateKey {
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: infrav1.HandOverSignerSecretName},
				Data:       map[string][]byte{infrav1.HandOverSignerSeedKey: []byte(strings.Repeat(letter, ed25519.SeedSize))},
			}
			_ = c.Delete(t.Context(), secret.DeepCopy())
			if err := c.Create(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			return ed25519.NewKeyFromSeed(secret.Data[infrav1.HandOverSignerSeedKey])
		}
		s := &signers{}
		expect := func(what string, handOver *host.HandOver, want ed25519.PrivateKey, wantReads int) {
			t.Helper()
			reads = 0
			for range 3 {
				if key, err := s.key(t.Context(), c, "n", handOver); err != nil || !key.Equal(want) {
					t.Errorf("%s: another key than wanted, error %v", what, err)
				}
			}
			if reads != wantReads {
				t.Errorf("%s: %d reads, want %d", what, reads, wantReads)
			}
		}
		signed := func(key ed25519.PrivateKey) *host.HandOver {
			kubeconfig := []byte("kubeconfig")
			h := &host.HandOver{Kubeconfig: kubeconfig, Expires: time.Now().Add(time.Hour)}
			h.Signature = h.Sign(key, "n")
			return h
		}
		first := set("a")
		expect("first", nil, first, 1)
		expect("its hand-over", signed(first), first, 0)
		second := set("b")
		expect("just replaced", nil, first, 0)
		time.Sleep(signerRetry)
		expect("replaced, and the hand-over is signed anew", signed(second), second, 1)
		third := set("c")
		time.Sleep(signerLife)
		expect("replaced a while ago", nil, third, 1)

		broken = errors.New("the API server is away")
		time.Sleep(signerLife)
		expect("cannot be read", nil, third, 3)
		broken = nil
		if err := c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: infrav1.HandOverSignerSecretName}}); err != nil {
			t.Fatal(err)
		}
		expect("removed", nil, nil, 1)
		expect("removed, and there is a hand-over", signed(third), nil, 3)
		fourth := set("d")
		if key, err := s.fresh(t.Context(), c, "n"); err != nil || !key.Equal(fourth) {
			t.Errorf("fresh is not what the API server has: %v", err)
		}
	})
}
