package hostmachine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
)

// releaseSurplus resets every host that carries the claim besides the one the
// providerID names. Two managers at once can each take a host; the providerID,
// written once with a lock, says which of them counts.
func (r *Reconciler) releaseSurplus(ctx context.Context, s *scope) (bool, error) {
	hosts, err := hostsOfClaim(ctx, r.Client, s.hostMachine)
	if err != nil {
		return false, err
	}
	for i := range hosts {
		h := &hosts[i]
		if infrav1.ProviderID(h.Namespace, h.Name, s.hostMachine.Spec.ClaimID) == s.hostMachine.Spec.ProviderID {
			continue
		}
		if err := r.reset(ctx, s, h); err != nil {
			return false, err
		}
	}
	return true, nil
}

// observeHost mirrors the claimed host. A machine keeps its host for life: when
// the host is gone or taken from it, that is reported and left to remediation.
func (r *Reconciler) observeHost(ctx context.Context, s *scope) (bool, error) {
	_, name, claimID, ok := host.ParseProviderID(s.hostMachine.Spec.ProviderID)
	if !ok {
		s.waiting = &waiting{infrav1.HostMachineHostLostReason, fmt.Sprintf("spec.providerID %q is not of this provider. Delete the Machine", s.hostMachine.Spec.ProviderID)}
		return false, nil
	}
	h, err := s.claimed, error(nil)
	if h == nil {
		h = &infrav1.Host{}
		err = r.Client.Get(ctx, client.ObjectKey{Namespace: s.hostMachine.Namespace, Name: name}, h)
	}
	if apierrors.IsNotFound(err) {
		r.hosts.Forget(client.ObjectKey{Namespace: s.hostMachine.Namespace, Name: name})
		s.waiting = &waiting{infrav1.HostMachineHostLostReason, fmt.Sprintf("Host %s is gone. Delete the Machine to replace it", name)}
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get Host %s: %w", name, err)
	}
	if !carries(h, claimID) {
		return r.lostClaim(ctx, s, h, claimID)
	}
	return r.hold(ctx, s, h)
}

// hold mirrors the host that carries the claim, unless its agent refused to adopt the
// node on it.
func (r *Reconciler) hold(ctx context.Context, s *scope, h *infrav1.Host) (bool, error) {
	if host.AdoptionRefused(h) {
		return false, r.giveBack(ctx, s, h)
	}
	s.host, s.waiting = h, nil
	if err := r.mirror(ctx, s); err != nil {
		return false, err
	}
	return true, nil
}

// lostClaim makes sure that the claim is really gone from the host: right after
// the claim, the cache may still show the host without it.
func (r *Reconciler) lostClaim(ctx context.Context, s *scope, h *infrav1.Host, claimID string) (bool, error) {
	live := &infrav1.Host{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(h), live); err != nil {
		return false, fmt.Errorf("get Host %s: %w", h.Name, err)
	}
	if carries(live, claimID) {
		return r.hold(ctx, s, live)
	}
	if s.waiting = refusal(s.hostMachine); s.waiting != nil {
		return false, nil
	}
	s.waiting = &waiting{infrav1.HostMachineHostLostReason, fmt.Sprintf("Host %s no longer carries this claim. Delete the Machine to replace it", h.Name)}
	return false, nil
}

func carries(h *infrav1.Host, claimID string) bool {
	return h.Spec.Claim != nil && h.Spec.Claim.ClaimID == claimID
}

// mirror copies what the host reports to the status.
func (r *Reconciler) mirror(ctx context.Context, s *scope) error {
	status := &s.hostMachine.Status
	status.HostRef = infrav1.HostReference{Name: s.host.Name}
	status.Addresses = s.host.Status.Addresses
	if version := host.RunningVersion(s.host); version != "" {
		status.Version = version
	}
	op := host.Observed(s.host)
	switch {
	case host.Bootstrapped(s.host):
		if op != nil && !ptr.Deref(status.Initialization.Provisioned, false) {
			r.reportNode(ctx, s, op.Phase)
		}
		// It never goes back: the contract wants it so.
		status.Initialization.Provisioned = ptr.To(true)
	case op != nil && op.Phase == infrav1.HostDesiredBootstrapped && op.State == infrav1.OperationFailed:
		if !bootstrapReportedFailed(s.hostMachine) {
			r.Recorder.Eventf(s.hostMachine, s.host, "Warning", "BootstrapFailed", "Bootstrap", "Host %s: %.900s", s.host.Name, host.FailureMessage(op))
		}
	}
	return r.observeFailureDomain(ctx, s)
}

// reportNode logs, once, how the host became a node.
func (r *Reconciler) reportNode(ctx context.Context, s *scope, by infrav1.HostDesiredPhase) {
	switch by {
	case infrav1.HostDesiredBootstrapped:
		ctrl.LoggerFrom(ctx).Info("Bootstrapped host", "Host", klog.KObj(s.host))
	case infrav1.HostDesiredAdopted:
		ctrl.LoggerFrom(ctx).Info("Adopted the node on a host", "Host", klog.KObj(s.host))
		r.Recorder.Eventf(s.hostMachine, s.host, "Normal", "Adopted", "Adopt", "Adopted the node on Host %s as it is", s.host.Name)
	case infrav1.HostDesiredUpgraded, infrav1.HostDesiredRebooted, infrav1.HostDesiredReset:
	}
}

// observeFailureDomain writes the failure domain as the HostCluster names it: its
// failureDomainLabel decides. The host's own spec does for a Cluster without a HostCluster. A
// HostCluster that is gone or cannot be read changes nothing, since Cluster API copies the
// domain to the Machine.
func (r *Reconciler) observeFailureDomain(ctx context.Context, s *scope) error {
	hostCluster, err := placement.HostClusterOf(ctx, r.Client, s.cluster)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	label := ""
	if hostCluster != nil {
		label = hostCluster.Spec.FailureDomainLabel
	}
	s.hostMachine.Status.FailureDomain = host.FailureDomain(s.host, label)
	return nil
}
