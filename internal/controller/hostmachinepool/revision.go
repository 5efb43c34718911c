package hostmachinepool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/pool"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// bootstrapDataKey is where the bootstrap contract puts the data in its Secret.
const bootstrapDataKey = "value"

// maxAge is how long what was read or computed for a pool is believed.
const maxAge = 30 * time.Second

// memory spares a pool of thousands a read of its Secret, and a look at every host, with
// each event of a member. Nothing is done on its word: a plan with steps is made again
// over live reads. The zero value is ready for use.
type memory struct {
	once sync.Once
	kept *cache.Expiring
}

// bootstrapKey and capacityKey name what is kept of a pool: a bootstrap, and that the
// capacity was computed.
type (
	bootstrapKey struct{ pool, secret types.NamespacedName }
	capacityKey  struct{ pool types.NamespacedName }
)

func (m *memory) get(key any, c clock.Clock) (any, bool) { return m.cache(c).Get(key) }

func (m *memory) put(key, value any, c clock.Clock) { m.cache(c).Set(key, value, maxAge) }

func (m *memory) cache(c clock.Clock) *cache.Expiring {
	m.once.Do(func() { m.kept = cache.NewExpiringWithClock(c) })
	return m.kept
}

// readRevision finds out what members are made from now.
func (r *Reconciler) readRevision(ctx context.Context, s *scope) error {
	err := r.computeRevision(ctx, s, true)
	deadline := s.deadline()
	s.stalled = !deadline.IsZero() && r.Clock.Now().After(deadline)
	s.requeue(wait.Jitter(pollInterval, 0.2))
	if !deadline.IsZero() && !s.stalled {
		s.requeue(deadline.Sub(r.Clock.Now()) + time.Second)
	}
	return err
}

// computeRevision reads the Secret, unless what was read lately will do and may.
func (r *Reconciler) computeRevision(ctx context.Context, s *scope, lately bool) error {
	s.revision, s.fingerprint, s.unknown, s.outOfDate = "", "", "", ""
	secretName := ptr.Deref(s.machinePool.Spec.Template.Spec.Bootstrap.DataSecretName, "")
	if secretName == "" {
		s.unknown = fmt.Sprintf("MachinePool %s has no bootstrap data yet", s.machinePool.Name)
		return nil
	}
	key := bootstrapKey{client.ObjectKeyFromObject(s.pool), client.ObjectKey{Namespace: s.pool.Namespace, Name: secretName}}
	kept, _ := r.memory.get(key, r.Clock)
	data, known := kept.(bootstrap)
	if !known || !lately {
		var err error
		if data, err = r.readBootstrap(ctx, s, secretName); err != nil || data.fingerprint == "" {
			return err
		}
		r.memory.put(key, data, r.Clock)
	}
	if r.Clock.Now().Before(data.outOfDateUntil) {
		s.outOfDate = fmt.Sprintf("waiting for the bootstrap data in Secret %s to follow its config, which has changed: it does with the next token", secretName)
	}
	revision, err := revisionOf(data.fingerprint, s.pool.Spec.Placement, s.pool.Spec.NodeLabels)
	s.revision, s.fingerprint = revision, data.fingerprint
	return err
}

// bootstrap is what a Secret with bootstrap data tells.
type bootstrap struct {
	fingerprint string
	// outOfDateUntil is how long the data counts as older than what it is made from.
	outOfDateUntil time.Time
}

// readBootstrap reads the bootstrap data; there is no fingerprint when there is none
// to take it of, for which s.unknown gives the reason.
func (r *Reconciler) readBootstrap(ctx context.Context, s *scope, secretName string) (bootstrap, error) {
	secret := &corev1.Secret{}
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: s.pool.Namespace, Name: secretName}, secret)
	if apierrors.IsNotFound(err) {
		s.unknown = fmt.Sprintf("Secret %s with the bootstrap data of MachinePool %s does not exist", secretName, s.machinePool.Name)
		return bootstrap{}, nil
	}
	if why := reconciler.MissingSecretRights(err, s.pool.Namespace); why != "" {
		s.unknown = fmt.Sprintf("Secret %s with the bootstrap data of MachinePool %s cannot be read: %s", secretName, s.machinePool.Name, why)
		return bootstrap{}, nil
	}
	if err != nil {
		return bootstrap{}, fmt.Errorf("get Secret %s with the bootstrap data: %w", secretName, err)
	}
	fingerprint, err := pool.Fingerprint(secret.Data[bootstrapDataKey])
	if err != nil {
		// It is not for a retry to mend: the Secret must change.
		s.unknown = fmt.Sprintf("Secret %s: %s", secretName, err)
		return bootstrap{}, nil
	}
	until, err := r.outOfDateUntil(ctx, s, secret)
	return bootstrap{fingerprint, until}, err
}

// revisionOf names what a member is made from besides its version. What is not in
// it changes nothing of members that exist: preferences count when a host is chosen,
// the reset policy is passed on to them. The selector and the capacity replace only members
// whose hosts do not satisfy them: see outgrown.
func revisionOf(fingerprint string, placement infrav1.Placement, nodeLabels []infrav1.HostLabelKey) (string, error) {
	made, err := json.Marshal(struct {
		Bootstrap    string                 `json:"bootstrap"`
		HostSelector *metav1.LabelSelector  `json:"hostSelector"`
		MinCapacity  corev1.ResourceList    `json:"minCapacity,omitempty"`
		NodeLabels   []infrav1.HostLabelKey `json:"nodeLabels,omitempty"`
	}{fingerprint, placement.HostSelector, placement.MinCapacity, nodeLabels})
	if err != nil {
		return "", fmt.Errorf("encode spec.hostSelector, spec.minCapacity and spec.nodeLabels: %w", err)
	}
	sum := sha256.Sum256(made)
	return hex.EncodeToString(sum[:5]), nil
}

// wishes reports whether a member differs from what the pool makes now in nothing but what it asked
// of its host.
func (s *scope) wishes(m *infrav1.HostMachine) bool {
	label := m.Labels[infrav1.RevisionLabel]
	if label == s.revision || s.revision == "" {
		return false
	}
	made, err := revisionOf(s.fingerprint, m.Spec.Placement, s.pool.Spec.NodeLabels)
	return err == nil && made == label
}

// outgrown reports whether a member's host is what the pool asks for now, though it was asked for
// otherwise: a replacement would drain and reset a host, to claim one like it.
func (s *scope) outgrown(m *infrav1.HostMachine) bool {
	h := s.hosts.of(m)
	return h != nil && s.wishes(m) && s.hosts.requirements.Mismatch(h) == ""
}

// misfits names the members whose hosts are not what the pool asks for. Those that asked for
// something else are replaced; those whose hosts have changed, as when a label has gone, stay.
func (s *scope) misfits() []string {
	var all []string
	for i := range s.hostMachines {
		m := &s.hostMachines[i]
		h := s.hosts.of(m)
		current := m.Labels[infrav1.RevisionLabel] == s.revision
		if h == nil || s.revision == "" || !m.DeletionTimestamp.IsZero() || !current && !s.wishes(m) {
			continue
		}
		why := s.hosts.requirements.Mismatch(h)
		if why == "" {
			continue
		}
		line := fmt.Sprintf("HostMachine %s: host %s does not fit: %s", m.Name, h.Name, why)
		if current {
			line += fmt.Sprintf(". Delete Machine %s to have it replaced, or give the host what is asked for", m.Name)
		}
		all = append(all, line)
	}
	slices.Sort(all)
	if more := len(all) - maxMisfits; more > 0 {
		all = append(all[:maxMisfits], fmt.Sprintf("and %d more", more))
	}
	return all
}

// maxMisfits are named in a condition.
const maxMisfits = 10
