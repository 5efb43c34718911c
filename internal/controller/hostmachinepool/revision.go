package hostmachinepool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/internal/bootstrapdata"
)

// bootstrapDataKey is where the bootstrap contract puts the data in its Secret.
const bootstrapDataKey = "value"

// remembered spares a pool of thousands a read of its Secret with every event of a
// member. Nothing is done on its word: a plan with steps is made again over live reads.
type remembered struct {
	secretName, fingerprint string
	at                      time.Time
	// capacityAt is when the capacity was computed.
	capacityAt time.Time
}

// maxAge is how long it is believed.
const maxAge = 30 * time.Second

type memory struct {
	mu    sync.Mutex
	pools map[types.NamespacedName]remembered
}

func (m *memory) get(key types.NamespacedName) remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pools[key]
}

func (m *memory) update(key types.NamespacedName, change func(*remembered)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pools == nil {
		m.pools = map[types.NamespacedName]remembered{}
	}
	entry := m.pools[key]
	change(&entry)
	m.pools[key] = entry
}

func (m *memory) remove(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pools, key)
}

// forget drops all that is kept of a pool that is gone.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.memory.remove(key)
	forgetMetrics(key)
}

// readRevision finds out what members are made from now.
func (r *Reconciler) readRevision(ctx context.Context, s *scope) error {
	err := r.computeRevision(ctx, s, r.memory.get(client.ObjectKeyFromObject(s.pool)))
	deadline := s.deadline()
	s.stalled = !deadline.IsZero() && r.Clock.Now().After(deadline)
	s.requeue(wait.Jitter(pollInterval, 0.2))
	if !deadline.IsZero() && !s.stalled {
		s.requeue(deadline.Sub(r.Clock.Now()) + time.Second)
	}
	return err
}

// computeRevision reads the Secret unless what was read lately will do.
func (r *Reconciler) computeRevision(ctx context.Context, s *scope, lately remembered) error {
	s.revision, s.unknown = "", ""
	secretName := ptr.Deref(s.machinePool.Spec.Template.Spec.Bootstrap.DataSecretName, "")
	if secretName == "" {
		s.unknown = fmt.Sprintf("MachinePool %s has no bootstrap data yet", s.machinePool.Name)
		return nil
	}
	if lately.secretName != secretName || r.Clock.Since(lately.at) > maxAge {
		fingerprint, err := r.fingerprint(ctx, s, secretName)
		if err != nil || fingerprint == "" {
			return err
		}
		lately.fingerprint = fingerprint
		r.memory.update(client.ObjectKeyFromObject(s.pool), func(m *remembered) {
			m.secretName, m.fingerprint, m.at = secretName, fingerprint, r.Clock.Now()
		})
	}
	revision, err := revisionOf(lately.fingerprint, s.pool.Spec.HostSelector)
	s.revision = revision
	return err
}

// fingerprint of the bootstrap data; "" when there is none to take it of, for which
// s.unknown gives the reason.
func (r *Reconciler) fingerprint(ctx context.Context, s *scope, secretName string) (string, error) {
	secret := &corev1.Secret{}
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: s.pool.Namespace, Name: secretName}, secret)
	if apierrors.IsNotFound(err) {
		s.unknown = fmt.Sprintf("Secret %s with the bootstrap data of MachinePool %s does not exist", secretName, s.machinePool.Name)
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get Secret %s with the bootstrap data: %w", secretName, err)
	}
	fingerprint, err := bootstrapdata.Fingerprint(secret.Data[bootstrapDataKey])
	if err != nil {
		// It is not for a retry to mend: the Secret must change.
		s.unknown = fmt.Sprintf("Secret %s: %s", secretName, err)
		return "", nil
	}
	return fingerprint, nil
}

// revisionOf names what a member is made from besides its version. What is not in
// it changes nothing of members that exist: preferences count when a host is chosen,
// the reset policy is passed on to them.
func revisionOf(fingerprint string, selector *metav1.LabelSelector) (string, error) {
	made, err := json.Marshal(struct {
		Bootstrap    string                `json:"bootstrap"`
		HostSelector *metav1.LabelSelector `json:"hostSelector"`
	}{fingerprint, selector})
	if err != nil {
		return "", fmt.Errorf("encode spec.hostSelector: %w", err)
	}
	sum := sha256.Sum256(made)
	return hex.EncodeToString(sum[:5]), nil
}
