package hostmachinepool

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/pool"
)

// ownedConditions are all that this controller sets.
var ownedConditions = []string{
	clusterv1.ReadyCondition,
	clusterv1.RollingOutCondition,
	clusterv1.ScalingUpCondition,
	clusterv1.ScalingDownCondition,
	clusterv1.MachinesReadyCondition,
	clusterv1.MachinesUpToDateCondition,
	clusterv1.RemediatingCondition,
	clusterv1.PausedCondition,
}

// setConditions computes every condition but Paused and Remediating from what was seen.
// After an error it was not all: nothing becomes Ready by that.
func setConditions(s *scope, failed bool) {
	if condition := ready(s); !failed || condition.Status != metav1.ConditionTrue {
		conditions.Set(s.pool, condition)
	}
	for _, condition := range []metav1.Condition{
		rollingOut(s), scalingUp(s), scalingDown(s), machinesReady(s), machinesUpToDate(s),
	} {
		conditions.Set(s.pool, condition)
	}
}

// ready is true while as many machines as are wanted are provisioned and well.
func ready(s *scope) metav1.Condition {
	condition := metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse}
	readyReplicas := int(s.pool.Status.ReadyReplicas)
	switch {
	case !s.pool.DeletionTimestamp.IsZero():
		condition.Reason = clusterv1.DeletingReason
		condition.Message = fmt.Sprintf("%d machines still to be released", len(s.hostMachines))
	case readyReplicas < s.plan.Desired:
		condition.Reason = infrav1.HostMachinePoolProvisioningReason
		condition.Message = fmt.Sprintf("%d of %d machines ready%s", readyReplicas, s.plan.Desired, firstProblem(s))
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.ProvisionedReason
	}
	return condition
}

// firstProblem quotes the machine that is furthest from running well, since its message
// tells an operator most: usually that no host fits.
func firstProblem(s *scope) string {
	if s.unknown != "" {
		return "; " + s.unknown
	}
	for _, conditionType := range []string{infrav1.HostClaimedCondition, infrav1.BootstrapSucceededCondition, clusterv1.ReadyCondition} {
		for i := range s.hostMachines {
			m := &s.hostMachines[i]
			if conditions.IsFalse(m, conditionType) && conditions.GetMessage(m, conditionType) != "" {
				return fmt.Sprintf("; %s: %s", m.Name, conditions.GetMessage(m, conditionType))
			}
		}
	}
	return ""
}

// rollingOut is true while there are machines of another version or revision. Its
// reason says whether the rollout is paused.
func rollingOut(s *scope) metav1.Condition {
	condition := metav1.Condition{Type: clusterv1.RollingOutCondition, Status: metav1.ConditionTrue, Reason: clusterv1.RollingOutReason}
	if s.plan.Outdated == 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, clusterv1.NotRollingOutReason
		return condition
	}
	lines := []string{fmt.Sprintf("Rolling out %d not up-to-date machines", s.plan.Outdated)}
	if s.plan.Pause != (pool.Pause{}) {
		condition.Reason = s.plan.Pause.Reason
		lines = append(lines, s.plan.Pause.Message)
	}
	lines = append(lines, s.plan.Differences...)
	lines = append(lines, s.plan.Holds...)
	condition.Message = strings.Join(lines, "\n* ")
	return condition
}

// scalingUp is true until there is a host for every machine that is wanted.
func scalingUp(s *scope) metav1.Condition {
	condition := metav1.Condition{Type: clusterv1.ScalingUpCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotScalingUpReason}
	placed := 0
	for i := range s.hostMachines {
		if s.hostMachines[i].DeletionTimestamp.IsZero() && s.hostMachines[i].Spec.ProviderID != "" {
			placed++
		}
	}
	if placed < s.plan.Desired {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.ScalingUpReason
		condition.Message = fmt.Sprintf("Scaling up from %d to %d machines%s", placed, s.plan.Desired, firstProblem(s))
	}
	return condition
}

// scalingDown is true while there are more machines than are wanted, as also during
// a rollout.
func scalingDown(s *scope) metav1.Condition {
	condition := metav1.Condition{Type: clusterv1.ScalingDownCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotScalingDownReason}
	if n := len(s.hostMachines); n > s.plan.Desired {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.ScalingDownReason
		condition.Message = fmt.Sprintf("Scaling down from %d to %d machines", n, s.plan.Desired)
	}
	return condition
}

// machinesReady sums up the condition Ready of the Machines, as core does for a
// MachineDeployment.
func machinesReady(s *scope) metav1.Condition {
	condition := metav1.Condition{Type: clusterv1.MachinesReadyCondition, Status: metav1.ConditionTrue, Reason: clusterv1.NoReplicasReason}
	if len(s.machines) == 0 {
		if len(s.hostMachines) > 0 {
			condition.Status, condition.Reason = metav1.ConditionUnknown, clusterv1.ReadyUnknownReason
			condition.Message = "Waiting for Cluster API to make the Machines"
		}
		return condition
	}
	machines := make([]*clusterv1.Machine, 0, len(s.machines))
	for i := range s.machines {
		machines = append(machines, &s.machines[i])
	}
	summary, err := conditions.NewAggregateCondition(machines, clusterv1.ReadyCondition,
		conditions.TargetConditionType(clusterv1.MachinesReadyCondition),
		conditions.CustomMergeStrategy{MergeStrategy: conditions.DefaultMergeStrategy(conditions.ComputeReasonFunc(
			conditions.GetDefaultComputeMergeReasonFunc(clusterv1.NotReadyReason, clusterv1.ReadyUnknownReason, clusterv1.ReadyReason),
		))})
	if err != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, clusterv1.InternalErrorReason, err.Error()
		return condition
	}
	return *summary
}

// machinesUpToDate is true when every machine has the version and the revision of
// the pool.
func machinesUpToDate(s *scope) metav1.Condition {
	condition := metav1.Condition{Type: clusterv1.MachinesUpToDateCondition, Status: metav1.ConditionTrue, Reason: clusterv1.UpToDateReason}
	switch {
	case len(s.hostMachines) == 0:
		condition.Reason = clusterv1.NoReplicasReason
	case s.unknown != "":
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, clusterv1.UpToDateUnknownReason, s.unknown
	default:
		if lines := slices.Concat(s.plan.Differences, s.misfits()); len(lines) > 0 {
			condition.Status, condition.Reason = metav1.ConditionFalse, clusterv1.NotUpToDateReason
			condition.Message = "* " + strings.Join(lines, "\n* ")
		}
	}
	return condition
}

func rollingOutReason(pool *infrav1.HostMachinePool) string {
	return conditions.GetReason(pool, clusterv1.RollingOutCondition)
}

// reportRollout tells of the begin, the end and a pause of a rollout, once each.
func (r *Reconciler) reportRollout(s *scope) {
	observe(s)
	reason := rollingOutReason(s.pool)
	if reason == s.wasRollingOut {
		return
	}
	message := conditions.GetMessage(s.pool, clusterv1.RollingOutCondition)
	switch reason {
	case clusterv1.RollingOutReason:
		r.Recorder.Eventf(s.pool, nil, "Normal", "RollingOut", "RollOut", "%.900s", message)
	case clusterv1.NotRollingOutReason:
		if s.wasRollingOut != "" {
			r.Recorder.Eventf(s.pool, nil, "Normal", "RolledOut", "RollOut", "Every machine has version %s and revision %s", s.version(), s.revision)
		}
	default:
		r.Recorder.Eventf(s.pool, nil, "Warning", reason, "RollOut", "%.900s", message)
	}
}
