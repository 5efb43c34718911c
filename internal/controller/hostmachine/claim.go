package hostmachine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
	"github.com/slipway-dev/slipway/internal/placement/inputs"
	"github.com/slipway-dev/slipway/internal/tracing"
)

// recordIntent writes the claimID before any host is touched, so that a host
// which carries it can always be traced back to its machine.
func (r *Reconciler) recordIntent(ctx context.Context, s *scope) (bool, error) {
	if s.hostMachine.Spec.ClaimID != "" {
		return true, nil
	}
	claimID := string(uuid.NewUUID())
	if err := s.write(ctx, func(m *infrav1.HostMachine) { m.Spec.ClaimID = claimID }); err != nil {
		return false, fmt.Errorf("record the claim: %w", err)
	}
	s.newIntent = true
	return true, nil
}

// claimHost takes a host and records its providerID. The manager may have crashed between
// the two: a host that the cache shows with the claimID is the machine's already, and take
// looks for one that it doesn't show yet.
func (r *Reconciler) claimHost(ctx context.Context, s *scope) (bool, error) {
	if s.hostMachine.Spec.ProviderID != "" {
		return true, nil
	}
	seen, err := hostsOfClaim(ctx, r.Client, s.hostMachine)
	if err != nil {
		return false, err
	}
	var claimed *infrav1.Host
	if len(seen) > 0 {
		if claimed, err = r.findClaimed(ctx, s); err != nil {
			return false, err
		}
	}
	if claimed == nil {
		take := r.takeHost
		if s.adopts() {
			take = r.takeNode
		}
		if claimed, err = take(ctx, s); err != nil || claimed == nil {
			s.hostless = err == nil
			return false, err
		}
	}
	s.claimed = claimed
	providerID := infrav1.ProviderID(claimed.Namespace, claimed.Name, s.hostMachine.Spec.ClaimID)
	if err := s.write(ctx, func(m *infrav1.HostMachine) { m.Spec.ProviderID = providerID }); err != nil {
		return false, fmt.Errorf("record the providerID: %w", err)
	}
	return true, nil
}

// findClaimed looks up, past the cache, the host of an earlier attempt. Of several, which
// only two managers at once can produce, it keeps the first by name that isn't being reset:
// none has an operation yet, since that needs the providerID.
func (r *Reconciler) findClaimed(ctx context.Context, s *scope) (*infrav1.Host, error) {
	if s.newIntent {
		return nil, nil
	}
	hosts, err := hostsOfClaim(ctx, r.APIReader, s.hostMachine)
	if err != nil {
		return nil, err
	}
	for i := range hosts {
		if !host.Releasing(&hosts[i]) {
			return &hosts[i], nil
		}
	}
	return nil, nil
}

// hostsOfClaim reads the hosts that carry the claimID, past the cache by name.
func hostsOfClaim(ctx context.Context, reader client.Reader, m *infrav1.HostMachine) ([]infrav1.Host, error) {
	hosts := &infrav1.HostList{}
	err := reader.List(ctx, hosts, client.InNamespace(m.Namespace), client.MatchingFields{infrav1.HostClaimIDField: m.Spec.ClaimID})
	if err != nil {
		return nil, fmt.Errorf("look for the hosts of claim %s: %w", m.Spec.ClaimID, err)
	}
	return hosts.Items, nil
}

// takeHost claims the best host that fits. It returns nil, and says why in the
// scope, when there is none. The choice is made over the cache and checked again
// on a live read, whose resourceVersion the one Update carries: of two managers
// that choose the same host, one gets a conflict and begins anew.
func (r *Reconciler) takeHost(ctx context.Context, s *scope) (*infrav1.Host, error) {
	request, err := inputs.RequestFor(ctx, r.Client, s.hostMachine, s.owner, s.cluster)
	if err != nil {
		return nil, err
	}
	key, err := rankingKey(s.hostMachine.Namespace, request)
	if err != nil {
		return nil, err
	}
	if outcome := r.takeOf(ctx, s, r.rankings.get(key, r.Clock)); outcome.ended() {
		return outcome.host, outcome.err
	}
	chooser, err := placement.NewChooser(request)
	if err != nil {
		return nil, err
	}
	candidates, err := inputs.Candidates(ctx, r.Client, s.hostMachine.Namespace)
	if err != nil {
		return nil, err
	}
	result := chooser.Choose(candidates)
	fresh := ranking{chooser: chooser, hosts: result.Ranked}
	r.rankings.put(key, fresh, r.Clock)
	outcome := r.takeOf(ctx, s, fresh)
	if outcome.ended() {
		return outcome.host, outcome.err
	}
	result.Rejected = append(result.Rejected, outcome.rejected...)
	s.waiting = &waiting{infrav1.HostMachineNoHostFitsReason, result.Explain()}
	// A claim of this process that came to nothing gives its host back unseen.
	s.requeueAfter = r.reservations.wait(r.Clock.Now())
	return nil, nil
}

// outcome of going through a ranking: a host, an error, a hook that holds back the
// claim, or nothing but hosts that did not fit after all.
type outcome struct {
	host     *infrav1.Host
	held     bool
	rejected []placement.Rejection
	err      error
}

func (o outcome) ended() bool { return o.host != nil || o.held || o.err != nil }

// takeOf claims the first host of a ranking that is free still.
func (r *Reconciler) takeOf(ctx context.Context, s *scope, of ranking) outcome {
	var rejected []placement.Rejection
	for _, fit := range of.hosts {
		free := freeHostOf(fit.Host)
		if !r.reservations.begin(free, r.Clock.Now()) {
			rejected = append(rejected, placement.Rejection{Host: fit.Host.Name, Reason: "claimed"})
			continue
		}
		live, reason, err := r.judgeLive(ctx, of.chooser, free.ObjectKey)
		if err == nil && reason == "" {
			live, err = r.take(ctx, s, live)
		}
		// A hook that holds back the claim leaves live nil; the host of an earlier attempt is another one.
		held := err == nil && live == nil
		if err != nil || reason != "" || held || live.Name != fit.Host.Name {
			r.reservations.end(free)
		}
		if err != nil || reason == "" {
			return outcome{host: live, held: held, err: err}
		}
		rejected = append(rejected, placement.Rejection{Host: fit.Host.Name, Reason: reason})
	}
	return outcome{rejected: rejected}
}

// judgeLive reads the host past the cache and says why it doesn't fit after all.
func (r *Reconciler) judgeLive(ctx context.Context, chooser *placement.Chooser, key client.ObjectKey) (_ *infrav1.Host, reason string, _ error) {
	live := &infrav1.Host{}
	if err := r.APIReader.Get(ctx, key, live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, "being deleted", nil
		}
		return nil, "", fmt.Errorf("get Host %s: %w", key.Name, err)
	}
	return live, chooser.Reject(placement.Candidate{Host: live, Connected: host.Connected(live)}), nil
}

// take claims a host, unless the machine has one since an earlier attempt: it returns that.
// It returns nil while a hook holds back the claim. A machine that waits for a host gets
// here only when one fits, and costs no look past the cache before.
func (r *Reconciler) take(ctx context.Context, s *scope, live *infrav1.Host) (*infrav1.Host, error) {
	if earlier, err := r.findClaimed(ctx, s); err != nil || earlier != nil {
		return earlier, err
	}
	if !r.claimHooksPass(ctx, s, live) {
		return nil, nil
	}
	writeClaim(live, s)
	if err := r.Client.Update(ctx, live); err != nil {
		if apierrors.IsConflict(err) {
			claimConflicts.Inc()
		}
		return nil, fmt.Errorf("claim Host %s: %w", live.Name, err)
	}
	claims.Inc()
	tracing.Observe(claimSeconds, r.Clock.Since(s.hostMachine.CreationTimestamp.Time), tracing.Exemplar(r.traceClaim(ctx, s, live)))
	ctrl.LoggerFrom(ctx).Info("Claimed host", "Host", klog.KObj(live), "claim", s.hostMachine.Spec.ClaimID)
	return live, nil
}

// writeClaim is the whole change to a Host that a claim makes. It requests nothing
// yet. A word of an operator that the host is clean stays, for its agent. The host
// holds up a move from now on: the bootstrap begins.
func writeClaim(h *infrav1.Host, s *scope) {
	controllerutil.AddFinalizer(h, infrav1.HostFinalizer)
	h.Spec.Claim = &infrav1.HostClaim{
		MachineName: s.hostMachine.Name,
		ClusterName: s.cluster.Name,
		ClaimID:     s.hostMachine.Spec.ClaimID,
	}
	if s.adopts() {
		h.Spec.Claim.Adopt = ptr.To(true)
	}
	if s.owner != nil && s.owner.ControlPlane {
		h.Spec.Claim.ControlPlane = ptr.To(true)
	}
	h.Spec.ClaimGeneration = host.NextGeneration(h)
	h.Spec.Desired = nil
	host.BlockMove(h, true)
}
