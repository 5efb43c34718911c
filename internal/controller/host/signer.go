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
	"github.com/slipway-dev/slipway/internal/secretrights"
)

// signerRetry is how often a namespace without a key is looked at again.
const signerRetry = 10 * time.Second

// signers knows the key of each namespace by which hand-overs are signed. Who enrolls
// hosts makes it; the manager has no right to make Secrets, by which it could get any
// other. Agents learn the public part while this management cluster serves them, and
// take nothing else's word for where to go. The zero value is ready for use.
type signers struct {
	mu   sync.Mutex
	keys map[string]ed25519.PrivateKey
	// missing is when there was none, or none that the manager may read.
	missing map[string]time.Time
	// forbidden is why it may not.
	forbidden map[string]error
}

// key returns the key of a namespace; nil when there is none. That is believed for a
// while, and so is that the manager may not read it, unless the answer must be fresh.
func (s *signers) key(ctx context.Context, reader client.Reader, namespace string, fresh bool) (ed25519.PrivateKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys, s.missing, s.forbidden = map[string]ed25519.PrivateKey{}, map[string]time.Time{}, map[string]error{}
	}
	if key := s.keys[namespace]; key != nil || (!fresh && time.Since(s.missing[namespace]) < signerRetry) {
		return key, s.forbidden[namespace]
	}
	delete(s.forbidden, namespace)
	secret := &corev1.Secret{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: infrav1.HandOverSignerSecretName}, secret)
	if apierrors.IsNotFound(err) {
		s.missing[namespace] = time.Now()
		return nil, nil
	}
	if err != nil {
		err = fmt.Errorf("get Secret %s: %w", infrav1.HandOverSignerSecretName, err)
		if secretrights.Missing(err, namespace) != "" {
			s.missing[namespace], s.forbidden[namespace] = time.Now(), err
		}
		return nil, err
	}
	seed := secret.Data[infrav1.HandOverSignerSeedKey]
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("secret %s/%s must have %d random bytes under the key %s, not %d",
			namespace, secret.Name, ed25519.SeedSize, infrav1.HandOverSignerSeedKey, len(seed))
	}
	s.keys[namespace] = ed25519.NewKeyFromSeed(seed)
	return s.keys[namespace], nil
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
