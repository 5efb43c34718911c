package host

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=create

// signers knows the key of each namespace by which hand-overs are signed. Agents learn
// the public part while this management cluster serves them, and take nothing else's
// word for where to go. The zero value is ready for use.
type signers struct {
	mu   sync.Mutex
	keys map[string]ed25519.PrivateKey
}

// key returns the key of a namespace, and makes it on the first call.
func (s *signers) key(ctx context.Context, c client.Client, reader client.Reader, namespace string) (ed25519.PrivateKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := s.keys[namespace]; key != nil {
		return key, nil
	}
	secret, err := ensureSigner(ctx, c, reader, client.ObjectKey{Namespace: namespace, Name: infrav1.HandOverSignerSecretName})
	if err != nil {
		return nil, err
	}
	seed := secret.Data[infrav1.HandOverSignerSeedKey]
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("secret %s/%s has no key %s of %d bytes; delete it, and it is made anew",
			namespace, secret.Name, infrav1.HandOverSignerSeedKey, ed25519.SeedSize)
	}
	if s.keys == nil {
		s.keys = map[string]ed25519.PrivateKey{}
	}
	s.keys[namespace] = ed25519.NewKeyFromSeed(seed)
	return s.keys[namespace], nil
}

// public is the public key in the form agents get it.
func public(key ed25519.PrivateKey) ed25519.PublicKey {
	public, _ := key.Public().(ed25519.PublicKey)
	return public
}

func ensureSigner(ctx context.Context, c client.Client, reader client.Reader, key client.ObjectKey) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := reader.Get(ctx, key, secret)
	if !apierrors.IsNotFound(err) {
		return secret, err
	}
	seed := make([]byte, ed25519.SeedSize)
	if _, err := rand.Read(seed); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Data:       map[string][]byte{infrav1.HandOverSignerSeedKey: seed},
	}
	err = c.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		// Another worker was first.
		return secret, reader.Get(ctx, key, secret)
	}
	if err != nil {
		return nil, fmt.Errorf("make Secret %s: %w", key.Name, err)
	}
	return secret, nil
}
