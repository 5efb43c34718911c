package hostmachine

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=patch

const (
	// waitsUnseen is how long a Machine waits for a host before it is marked: a
	// MachineHealthCheck waits for a Node for at least 30 s.
	waitsUnseen = 20 * time.Second
	// joinLimit is how long a Machine that has waited stays marked once it has a host: as
	// long as the released templates wait for a Node (nodeStartupTimeoutSeconds).
	joinLimit = 20 * time.Minute
	// drainLimit is how long a Machine stays marked while its host drains and reboots.
	drainLimit = 30 * time.Minute
)

// mark is what becomes of the mark of a Machine.
type mark int

const (
	unmark mark = iota
	keepMark
	setMark
)

// spareWaiting marks a Machine that waits for a host, so that MachineHealthChecks pass over
// it. They count its time without a Node from its creation, and would have it deleted, to
// no avail: another one would wait, too, and begin to count anew. Nor would one that got
// its host late have the time to become a Node. A mark that somebody else set stays.
func (r *Reconciler) spareWaiting(ctx context.Context, s *scope) error {
	if !s.hostMachine.DeletionTimestamp.IsZero() {
		return nil
	}
	machine, err := util.GetOwnerMachine(ctx, r.Client, s.hostMachine.ObjectMeta)
	if err != nil || machine == nil || !machine.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	value, marked := machine.Annotations[clusterv1.MachineSkipRemediationAnnotation]
	if marked && value != infrav1.WaitingForHostMark {
		return nil
	}
	wanted, after, err := r.markOf(ctx, s, machine)
	if err != nil {
		return err
	}
	if after > 0 && (s.requeueAfter == 0 || after < s.requeueAfter) && (marked || s.waits()) {
		s.requeueAfter = after
	}
	if wanted == keepMark || marked == (wanted == setMark) {
		return nil
	}
	before := client.MergeFromWithOptions(machine.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if marked {
		delete(machine.Annotations, clusterv1.MachineSkipRemediationAnnotation)
	} else {
		metav1.SetMetaDataAnnotation(&machine.ObjectMeta, clusterv1.MachineSkipRemediationAnnotation, infrav1.WaitingForHostMark)
	}
	if err := r.Client.Patch(ctx, machine, before); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("mark Machine %s for MachineHealthChecks: %w", machine.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Marked the Machine for MachineHealthChecks", "Machine", klog.KObj(machine), "passOver", !marked)
	return nil
}

// waits says whether the machine has no host because none fits or because it leaves.
func (s *scope) waits() bool { return s.hostless || (s.leaving != "" && s.host == nil) }

// markOf decides on the mark, and says when that may be otherwise by the time alone.
func (r *Reconciler) markOf(ctx context.Context, s *scope, machine *clusterv1.Machine) (mark, time.Duration, error) {
	m := s.hostMachine
	switch {
	case s.waits():
		// A machine in the place of one that leaves would get no host, either.
		helps, err := s.hostless, error(nil)
		if helps {
			helps, err = r.anotherHelps(ctx, s)
		}
		if err != nil || helps {
			// Nobody tells when that host is taken.
			return unmark, waitsUnseen, err
		}
		// The API server's clock may be ahead of this one.
		if waited := max(0, r.Clock.Since(machine.CreationTimestamp.Time)); waited < waitsUnseen {
			return keepMark, waitsUnseen - waited, nil
		}
		return setMark, 0, nil
	case s.host != nil && host.Draining(s.host):
		since := r.Clock.Now()
		if c := conditions.Get(m, infrav1.RebootedCondition); c != nil && c.Status == metav1.ConditionFalse {
			since = c.LastTransitionTime.Time
		}
		if drains := max(0, r.Clock.Since(since)); drains < drainLimit {
			return setMark, drainLimit - drains, nil
		}
		return unmark, 0, nil
	case s.host == nil, host.StateOf(s.host).Phase == infrav1.HostPhaseFailed:
		return unmark, 0, nil
	case ptr.Deref(m.Status.Initialization.Provisioned, false) && conditions.IsTrue(machine, clusterv1.MachineInfrastructureReadyCondition):
		// From now on the time is counted from that condition.
		return unmark, 0, nil
	}
	since := r.Clock.Now()
	if claimed := conditions.Get(m, infrav1.HostClaimedCondition); claimed != nil && claimed.Status == metav1.ConditionTrue {
		since = claimed.LastTransitionTime.Time
	}
	if joins := max(0, r.Clock.Since(since)); joins < joinLimit {
		return keepMark, joinLimit - joins, nil
	}
	return unmark, 0, nil
}

// anotherHelps says whether another machine would get a host: of a control plane, whose
// next machine may be in another failure domain. All others ask for the same again.
func (r *Reconciler) anotherHelps(ctx context.Context, s *scope) (bool, error) {
	if !s.owner.ControlPlane || len(s.owner.FailureDomains) == 0 {
		return false, nil
	}
	hostCluster, err := placement.HostClusterOf(ctx, r.Client, s.cluster)
	if err != nil || hostCluster == nil {
		return false, err
	}
	request, err := placement.RequestFor(ctx, r.Client, s.hostMachine, s.owner, s.cluster)
	if err != nil {
		return false, err
	}
	request.FailureDomains = nil
	for _, domain := range hostCluster.Status.FailureDomains {
		if ptr.Deref(domain.ControlPlane, false) {
			request.FailureDomains = append(request.FailureDomains, domain.Name)
		}
	}
	if len(request.FailureDomains) == 0 {
		return false, nil
	}
	of, err := r.read(ctx, s, request)
	if err != nil {
		return false, err
	}
	return len(of.snapshot.Rank(of.requirements).Ranked) > 0, nil
}
