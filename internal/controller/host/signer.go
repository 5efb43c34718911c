package host

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

const (
	// signerRetry is how often a namespace without a key is read again, and one whose key did
	// not sign the hand-over that stands.
	signerRetry = 10 * time.Second
	// signerLife is how long a key is taken for that of its namespace: it may be replaced, and
	// a namespace may be made anew.
	signerLife = 5 * time.Minute
)

// signers knows the key of each namespace by which hand-overs are signed. Who enrolls
// hosts makes it; the manager has no right to make Secrets, by which it could get any
// other. Agents learn the public part while this management cluster serves them, and
// take nothing else's word for where to go. The zero value is ready for use.
type signers struct {
	mu    sync.Mutex
	known map[string]signer
}

// signer is what was read of one namespace.
type signer struct {
	// key is nil when there was none, or none that the manager may read.
	key ed25519.PrivateKey
	// forbidden is why it may not.
	forbidden error
	read      time.Time
}

// key returns the key of a namespace; nil when there is none. It is read again after a
// while, and sooner when the key did not sign the hand-over, if one is given. A failure to
// read it again leaves the known key.
func (s *signers) key(ctx context.Context, reader client.Reader, namespace string, handOver *host.HandOver) (ed25519.PrivateKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, found := s.known[namespace]
	lasts := signerLife
	switch {
	case known.key == nil && handOver != nil:
		lasts = 0 // somebody had one to sign with
	case known.key == nil, handOver != nil && handOver.Verify(public(known.key), namespace) != nil:
		lasts = signerRetry
	}
	if found && time.Since(known.read) < lasts {
		return known.key, known.forbidden
	}
	key, err := s.read(ctx, reader, namespace)
	if err != nil && known.key != nil && reconciler.MissingSecretRights(err, namespace) == "" {
		return known.key, nil
	}
	return key, err
}

// fresh returns the key of a namespace as the API server has it.
func (s *signers) fresh(ctx context.Context, reader client.Reader, namespace string) (ed25519.PrivateKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read(ctx, reader, namespace)
}

// read reads a key and remembers it. The caller holds mu.
func (s *signers) read(ctx context.Context, reader client.Reader, namespace string) (ed25519.PrivateKey, error) {
	if s.known == nil {
		s.known = map[string]signer{}
	}
	secret := &corev1.Secret{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: infrav1.HandOverSignerSecretName}, secret)
	if apierrors.IsNotFound(err) {
		s.known[namespace] = signer{read: time.Now()}
		return nil, nil
	}
	if err != nil {
		err = fmt.Errorf("get Secret %s: %w", infrav1.HandOverSignerSecretName, err)
		if reconciler.MissingSecretRights(err, namespace) != "" {
			s.known[namespace] = signer{forbidden: err, read: time.Now()}
		}
		return nil, err
	}
	seed := secret.Data[infrav1.HandOverSignerSeedKey]
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("secret %s/%s must have %d random bytes under the key %s, not %d",
			namespace, secret.Name, ed25519.SeedSize, infrav1.HandOverSignerSeedKey, len(seed))
	}
	key := ed25519.NewKeyFromSeed(seed)
	s.known[namespace] = signer{key: key, read: time.Now()}
	return key, nil
}

// tellForbidden tells of an object what keeps the manager from serving it, and who mends that
// how.
func tellForbidden(recorder events.EventRecorder, object client.Object, action, why string) {
	recorder.Eventf(object, nil, corev1.EventTypeWarning, "SecretsForbidden", action, "%s%s", strings.ToUpper(why[:1]), why[1:])
}

// public is the public key in the form agents get it.
func public(key ed25519.PrivateKey) ed25519.PublicKey {
	public, _ := key.Public().(ed25519.PublicKey)
	return public
}
