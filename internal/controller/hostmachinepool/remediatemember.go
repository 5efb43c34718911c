package hostmachinepool

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/pool"
)

func (r *Reconciler) remediateMember(ctx context.Context, s *scope, d pool.Decision) error {
	m, machine := s.hostMachine(d.Member), s.machineOf(d.Member)
	switch d.Kind {
	case pool.DecisionRecovered:
		return r.recovered(ctx, machine)
	case pool.DecisionForget:
		if err := r.recovered(ctx, machine); err != nil {
			return err
		}
		return r.record(ctx, m, nil)
	case pool.DecisionBegin:
		return r.begin(ctx, s, m, machine, d)
	case pool.DecisionPin:
		return r.pin(ctx, s, m)
	case pool.DecisionWait, pool.DecisionDefer, pool.DecisionGiveUp:
		return r.report(ctx, machine, d)
	default:
		return nil
	}
}

// begin records the attempt, which for a reboot is its request, too; the deletion of a
// Machine follows, and is repeated should the manager stop in between.
func (r *Reconciler) begin(ctx context.Context, s *scope, m *infrav1.HostMachine, machine *clusterv1.Machine, d pool.Decision) error {
	if err := r.record(ctx, m, &d.Attempt); err != nil {
		return err
	}
	action := d.Attempt.Action
	ctrl.LoggerFrom(ctx).Info("Remediating machine", "HostMachine", klog.KObj(m), "action", action, "remediationStep", d.Attempt.Step)
	r.Recorder.Eventf(m, nil, "Normal", "Remediating", "Remediate", "Step %d: %s. %s", d.Attempt.Step+1, action, d.Message)
	if err := r.report(ctx, machine, d); err != nil || action == infrav1.RemediationReboot {
		return err
	}
	if err := r.deleteUnhealthy(ctx, m, machine); err != nil || action != infrav1.RemediationRebootstrap {
		return err
	}
	return r.pin(ctx, s, m)
}

// deleteUnhealthy deletes the member through its Machine, so that core drains it,
// and only as long as nobody wrote to the Machine since it was read: it may have
// recovered.
func (r *Reconciler) deleteUnhealthy(ctx context.Context, m *infrav1.HostMachine, machine *clusterv1.Machine) error {
	o := client.Object(m)
	if machine != nil {
		o = machine
	}
	preconditions := client.Preconditions{UID: ptr.To(o.GetUID()), ResourceVersion: ptr.To(o.GetResourceVersion())}
	if err := r.Client.Delete(ctx, o, preconditions); err != nil {
		return fmt.Errorf("delete the unhealthy machine %s: %w", o.GetName(), err)
	}
	// What follows in this reconcile must count it as leaving.
	o.SetDeletionTimestamp(ptr.To(metav1.Now()))
	return nil
}

// record writes the annotation, and with it the request to reboot, in one write that
// fails when somebody wrote in between; nil takes the annotation away.
func (r *Reconciler) record(ctx context.Context, m *infrav1.HostMachine, attempt *pool.Attempt) error {
	if attempt != nil && m.Annotations[infrav1.RemediationAnnotation] == attempt.String() {
		return nil
	}
	before := m.DeepCopy()
	delete(m.Annotations, infrav1.RemediationAnnotation)
	if attempt != nil {
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[infrav1.RemediationAnnotation] = attempt.String()
		if attempt.Action == infrav1.RemediationReboot {
			m.Spec.Reboots, m.Spec.RebootPolicy = ptr.To(ptr.Deref(m.Spec.Reboots, 0)+1), infrav1.RebootImmediate
		}
	}
	if err := r.Client.Patch(ctx, m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("record the remediation of HostMachine %s: %w", m.Name, err)
	}
	return nil
}

// pin makes the machine that follows on the host of m. Its name depends on m alone,
// so that it is never made twice.
func (r *Reconciler) pin(ctx context.Context, s *scope, m *infrav1.HostMachine) error {
	staying := 0
	for i := range s.hostMachines {
		if machine := s.machineOf(s.hostMachines[i].Name); s.hostMachines[i].DeletionTimestamp.IsZero() && (machine == nil || machine.DeletionTimestamp.IsZero()) {
			staying++
		}
	}
	attempt := pool.ParseAttempt(m.Annotations)
	_, hostName, claimID, ok := host.ParseProviderID(m.Spec.ProviderID)
	if !ok || attempt == nil || staying >= s.desired() {
		return nil
	}
	successor := newHostMachine(s, pool.Step{})
	successor.Name = successorName(successor.Name, m.Name, claimID)
	successor.Spec.HostName, successor.Spec.Spread = hostName, m.Spec.Spread
	attempt.Since, attempt.Replaces = r.now(), m.Name
	if successor.Annotations == nil {
		successor.Annotations = map[string]string{}
	}
	successor.Annotations[infrav1.RemediationAnnotation] = attempt.String()
	if err := r.Client.Create(ctx, successor); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create a HostMachine on Host %s: %w", hostName, err)
	}
	s.hostMachines = append(s.hostMachines, *successor)
	return nil
}

// successorName replaces the random end of a name by one that stands for the
// machine that is succeeded.
func successorName(name, succeeded, claimID string) string {
	hash := fnv.New32a()
	_, _ = fmt.Fprintf(hash, "%s/%s", succeeded, claimID)
	end := rand.SafeEncodeString(fmt.Sprint(hash.Sum32()))
	return name[:strings.LastIndexByte(name, '-')+1] + end[:min(5, len(end))]
}

// ownerRemediated is the condition by which the owner answers a MachineHealthCheck,
// with the reasons a MachineSet gives.
func ownerRemediated(d pool.Decision) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Message: d.Message}
	switch {
	case deletes(d):
		c.Reason, c.Message = clusterv1.MachineSetMachineRemediationMachineDeletingReason, "Machine is deleting"
	case d.Kind == pool.DecisionBegin || d.Kind == pool.DecisionWait:
		c.Reason = clusterv1.RemediatingReason
	case d.Kind == pool.DecisionGiveUp:
		c.Reason = clusterv1.MachineSetMachineCannotBeRemediatedReason
	default:
		c.Reason = clusterv1.MachineSetMachineRemediationDeferredReason
	}
	return c
}

// deletes says whether a decision is the end of the machine.
func deletes(d pool.Decision) bool {
	return d.Kind == pool.DecisionBegin && d.Attempt.Action != infrav1.RemediationReboot
}

// report answers a MachineHealthCheck that left the machine to its owner. Where it
// did not, there is nothing to answer: the condition is its to make.
func (r *Reconciler) report(ctx context.Context, machine *clusterv1.Machine, d pool.Decision) error {
	if machine == nil || !machine.DeletionTimestamp.IsZero() || pool.HealthOf(machine) != pool.Unhealthy {
		return nil
	}
	condition := ownerRemediated(d)
	if before := conditions.Get(machine, condition.Type); conditions.HasSameState(before, &condition) {
		return nil
	}
	return r.patchMachineStatus(ctx, machine, func() {
		conditions.Set(machine, condition)
		// read by what still looks at contract v1beta1
		old := &clusterv1.Condition{ //nolint:staticcheck // the old form is what is meant
			Type: clusterv1.MachineOwnerRemediatedV1Beta1Condition, Status: corev1.ConditionFalse,
			Reason: clusterv1.WaitingForRemediationV1Beta1Reason, Severity: clusterv1.ConditionSeverityWarning, Message: condition.Message,
		}
		if deletes(d) {
			old = &clusterv1.Condition{ //nolint:staticcheck // as above
				Type: old.Type, Status: corev1.ConditionTrue,
			}
		}
		v1beta1conditions.Set(machine, old)
	})
}

// recovered takes back the answer once the machine passes its health checks, as
// every owner does.
func (r *Reconciler) recovered(ctx context.Context, machine *clusterv1.Machine) error {
	if machine == nil || !machine.DeletionTimestamp.IsZero() || pool.HealthOf(machine) != pool.Healthy ||
		!conditions.IsFalse(machine, clusterv1.MachineOwnerRemediatedCondition) {
		return nil
	}
	return r.patchMachineStatus(ctx, machine, func() {
		conditions.Delete(machine, clusterv1.MachineOwnerRemediatedCondition)
		v1beta1conditions.Delete(machine, clusterv1.MachineOwnerRemediatedV1Beta1Condition)
	})
}

func (r *Reconciler) patchMachineStatus(ctx context.Context, machine *clusterv1.Machine, mutate func()) error {
	before := machine.DeepCopy()
	mutate()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, machine, patch); err != nil {
		return fmt.Errorf("report the remediation of Machine %s: %w", machine.Name, err)
	}
	return nil
}

// remediationSummary gathers what the condition Remediating of the pool says.
type remediationSummary struct {
	unhealthy int
	// first is the message of the machine that waits for a person, or else of the
	// first one that waits for anything.
	first, gaveUp string
}

func (s *remediationSummary) add(machine *clusterv1.Machine, d pool.Decision) {
	switch d.Kind {
	case pool.DecisionNone, pool.DecisionRecovered, pool.DecisionForget:
		return
	case pool.DecisionGiveUp:
		s.gaveUp = cmp.Or(s.gaveUp, d.Member+": "+d.Message)
	default:
		if d.Message != "" {
			s.first = cmp.Or(s.first, d.Member+": "+d.Message)
		}
	}
	if machine != nil && pool.HealthOf(machine) == pool.Unhealthy {
		s.unhealthy++
	}
}

func (s *remediationSummary) condition() metav1.Condition {
	c := metav1.Condition{Type: clusterv1.RemediatingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotRemediatingReason}
	if s.unhealthy > 0 {
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.RemediatingReason
		c.Message = fmt.Sprintf("%d unhealthy machines", s.unhealthy)
	}
	if why := cmp.Or(s.gaveUp, s.first); why != "" {
		c.Message = strings.TrimPrefix(c.Message+"; "+why, "; ")
	}
	return c
}
