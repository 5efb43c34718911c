package hostmachine

import (
	"cmp"
	"context"
	"fmt"
	"time"

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
	"github.com/slipway-dev/slipway/internal/tracing"
)

// recordIntent writes the claimID before any host is touched, so that a host
// which carries it can always be traced back to its machine.
func (r *Reconciler) recordIntent(ctx context.Context, s *scope) (bool, error) {
	if s.hostMachine.Spec.ClaimID != "" {
		return true, nil
	}
	if leaves, err := r.makerLeaves(ctx, s); err != nil || leaves {
		return false, err
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
	request, err := placement.RequestFor(ctx, r.Client, s.hostMachine, s.owner, s.cluster)
	if err != nil {
		return nil, err
	}
	key, err := rankingKey(s.hostMachine.Namespace, request)
	if err != nil {
		return nil, err
	}
	if outcome := r.takeOf(ctx, s, request, r.rankings.get(key, r.Clock)); outcome.ended() {
		return outcome.host, outcome.err
	}
	of, err := r.read(ctx, s, request)
	if err != nil {
		return nil, err
	}
	result := of.snapshot.Rank(of.requirements)
	fresh := ranking{query: of, hosts: result.Ranked}
	r.rankings.put(key, fresh, r.Clock)
	outcome := r.takeOf(ctx, s, request, fresh)
	if outcome.ended() {
		return outcome.host, outcome.err
	}
	result.Rejected = append(result.Rejected, outcome.rejected...)
	r.waitForHost(s, result)
	return nil, nil
}

// read reads what the hosts of the machine's namespace are judged by.
func (r *Reconciler) read(ctx context.Context, s *scope, request placement.Request) (query, error) {
	requirements, err := placement.Parse(request)
	if err != nil {
		return query{}, err
	}
	snapshot, err := placement.Read(ctx, r.Client, s.hostMachine.Namespace)
	return query{snapshot, requirements}, err
}

// waitForHost says why there is no claim.
func (r *Reconciler) waitForHost(s *scope, result placement.Result) {
	// A claim of this process that came to nothing gives its host back unseen.
	s.requeueAfter = r.reservations.wait(r.Clock.Now())
	s.waiting = &waiting{infrav1.HostMachineNoHostFitsReason, result.Explain()}
	if result.Reserved > 0 {
		s.waiting.reason = infrav1.HostMachineControlPlaneFirstReason
		s.waiting.message += fmt.Sprintf(". Annotate Cluster %s with %s=false to have its workers claim hosts that its control plane needs", s.cluster.Name, infrav1.ControlPlaneFirstAnnotation)
		s.requeueAfter = cmp.Or(s.requeueAfter, controlPlaneInterval)
	}
}

// controlPlaneInterval is how long a change of a control plane may go unnoticed by workers that
// wait for it: it is not watched.
const controlPlaneInterval = 30 * time.Second

// outcome of going through a ranking: a host, an error, something that holds back the
// claim, or nothing but hosts that did not fit after all.
type outcome struct {
	host     *infrav1.Host
	held     bool
	rejected []placement.Verdict
	err      error
}

func (o outcome) ended() bool { return o.host != nil || o.held || o.err != nil }

// takeOf claims the first host of a ranking that is free still. A worker whose control plane
// lacks machines takes none that this needs. That is read past the cache, if any host fits.
func (r *Reconciler) takeOf(ctx context.Context, s *scope, request placement.Request, of ranking) outcome {
	if len(of.hosts) > 0 && !s.owner.ControlPlane {
		ahead, err := placement.Ahead(ctx, r.Client, s.cluster)
		if err != nil {
			return outcome{err: err}
		}
		if len(ahead) > 0 {
			request.Ahead = ahead
			return r.takeSpare(ctx, s, request)
		}
	}
	var rejected []placement.Verdict
	for _, fit := range of.hosts {
		if !r.reservations.begin(freeHostOf(fit.Host), r.Clock.Now()) {
			rejected = append(rejected, placement.Verdict{Host: fit.Host, Reason: "claimed"})
			continue
		}
		o := r.takeReserved(ctx, s, of.query, fit.Host)
		if o.ended() {
			return o
		}
		rejected = append(rejected, o.rejected...)
	}
	return outcome{rejected: rejected}
}

// takeSpare claims the best host that the control plane does not need. Workers choose one after
// the other, each without the hosts that others are claiming: of two hosts that the control plane
// can spare one of, two workers would take both.
func (r *Reconciler) takeSpare(ctx context.Context, s *scope, request placement.Request) outcome {
	of, err := r.read(ctx, s, request)
	if err != nil {
		return outcome{err: err}
	}
	rejected := map[*infrav1.Host]bool{}
	for {
		chosen, result := r.reserveSpare(of, rejected)
		if chosen == nil {
			r.waitForHost(s, result)
			return outcome{held: true}
		}
		if o := r.takeReserved(ctx, s, of, chosen); o.ended() {
			return o
		}
		rejected[chosen] = true
	}
}

// reserveSpare reserves the best host of those that are neither rejected nor being claimed; nil
// when there is none. Machines without such a control plane may reserve it first.
func (r *Reconciler) reserveSpare(of query, rejected map[*infrav1.Host]bool) (*infrav1.Host, placement.Result) {
	r.spares.Lock()
	defer r.spares.Unlock()
	for {
		result := of.snapshot.Claiming(func(h *infrav1.Host) bool {
			return rejected[h] || r.reservations.has(freeHostOf(h), r.Clock.Now())
		}).Rank(of.requirements)
		if len(result.Ranked) == 0 {
			return nil, result
		}
		best := result.Ranked[0].Host
		if r.reservations.begin(freeHostOf(best), r.Clock.Now()) {
			return best, result
		}
	}
}

// takeReserved claims a host that is reserved for it, and gives that up when it comes to nothing.
func (r *Reconciler) takeReserved(ctx context.Context, s *scope, of query, h *infrav1.Host) outcome {
	free := freeHostOf(h)
	live, reason, err := r.judgeLive(ctx, of, free.ObjectKey)
	if err == nil && reason == "" {
		live, err = r.take(ctx, s, live)
	}
	// An error, or a hook that holds back the claim, leaves live nil; the host of an earlier attempt is
	// another one.
	if live == nil || reason != "" || live.Name != h.Name {
		r.reservations.end(free)
	}
	if reason != "" {
		return outcome{rejected: []placement.Verdict{{Host: h, Reason: reason}}}
	}
	return outcome{host: live, held: err == nil && live == nil, err: err}
}

// judgeLive reads the host past the cache and says why it doesn't fit after all.
func (r *Reconciler) judgeLive(ctx context.Context, of query, key client.ObjectKey) (_ *infrav1.Host, reason string, _ error) {
	live := &infrav1.Host{}
	if err := r.APIReader.Get(ctx, key, live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, "being deleted", nil
		}
		return nil, "", fmt.Errorf("get Host %s: %w", key.Name, err)
	}
	return live, of.snapshot.Judge(of.requirements, live).Reason, nil
}

// take claims a host, unless the machine has one since an earlier attempt: it returns that.
// It returns nil while a hook holds back the claim, and once what made the machine is being deleted. A machine that waits for a host gets
// here only when one fits, and costs no look past the cache before.
func (r *Reconciler) take(ctx context.Context, s *scope, live *infrav1.Host) (*infrav1.Host, error) {
	if earlier, err := r.findClaimed(ctx, s); err != nil || earlier != nil {
		return earlier, err
	}
	if !s.newIntent {
		if leaves, err := r.makerLeaves(ctx, s); err != nil || leaves {
			return nil, err
		}
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
