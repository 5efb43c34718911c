package hostmachinepool

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// publish reports the pool to core. Core deletes the Node of a providerID that
// leaves the list, so one leaves it only when a live read shows that its
// HostMachine is gone; and that goes only when its host is released.
func (r *Reconciler) publish(ctx context.Context, s *scope) error {
	ids := providerIDs(s.hostMachines)
	if drops(s.pool.Spec.ProviderIDList, ids) {
		if err := s.read(ctx, r.APIReader); err != nil {
			return err
		}
		ids = providerIDs(s.hostMachines)
	}
	s.pool.Spec.ProviderID = fmt.Sprintf("%s%s/pools/%s", infrav1.ProviderIDPrefix, s.pool.Namespace, s.pool.Name)
	s.pool.Spec.ProviderIDList = ids

	status := &s.pool.Status
	status.InfrastructureMachineKind = machineKind
	status.Replicas = int32(len(s.hostMachines))
	status.ReadyReplicas = readyReplicas(s.hostMachines)
	status.Instances = instances(s)
	if !status.Ready && s.pool.DeletionTimestamp.IsZero() && complete(s, len(ids)) {
		r.Recorder.Eventf(s.pool, nil, "Normal", "Provisioned", "Provision", "The pool has %d of %d hosts", len(ids), s.desired())
		status.Ready = true
	}
	if status.Ready {
		status.Initialization.Provisioned = ptr.To(true)
	}
	return nil
}

// complete says whether core may begin to read the pool. Core looks at neither the
// providerIDs nor the Nodes before, so it is said as soon as every member has a
// host, which is while the hosts still bootstrap; or, in a pool that finds too few
// hosts, with its first machine, lest the missing ones hide those that run.
func complete(s *scope, claimed int) bool {
	return claimed >= s.desired() || s.pool.Status.ReadyReplicas > 0
}

// providerIDs are sorted: core takes another order for a change.
func providerIDs(machines []infrav1.HostMachine) []string {
	var ids []string
	for i := range machines {
		if id := machines[i].Spec.ProviderID; id != "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// drops says whether an ID of before is missing in after. Both are sorted.
func drops(before, after []string) bool {
	return slices.ContainsFunc(before, func(id string) bool {
		_, found := slices.BinarySearch(after, id)
		return !found
	})
}

func readyReplicas(machines []infrav1.HostMachine) int32 {
	var n int32
	for i := range machines {
		if provisioned(&machines[i]) && machines[i].DeletionTimestamp.IsZero() {
			n++
		}
	}
	return n
}

func instances(s *scope) []infrav1.HostMachinePoolInstanceStatus {
	version := ""
	if s.machinePool != nil {
		version = s.machinePool.Spec.Template.Spec.Version
	}
	list := make([]infrav1.HostMachinePoolInstanceStatus, 0, min(len(s.hostMachines), infrav1.MaxInstances))
	sorted := slices.Clone(s.hostMachines)
	slices.SortFunc(sorted, func(a, b infrav1.HostMachine) int { return cmp.Compare(a.Name, b.Name) })
	for i := range sorted[:cap(list)] {
		m := &sorted[i]
		list = append(list, infrav1.HostMachinePoolInstanceStatus{
			InstanceName: m.Name,
			HostName:     m.Status.HostRef.Name,
			Addresses:    m.Status.Addresses,
			ProviderID:   m.Spec.ProviderID,
			Version:      version,
			Ready:        provisioned(m),
		})
	}
	return list
}

// finish lets a deleted pool go when its last member is gone.
func (r *Reconciler) finish(_ context.Context, s *scope) error {
	if len(s.hostMachines) == 0 && len(s.machines) == 0 {
		controllerutil.RemoveFinalizer(s.pool, infrav1.HostMachinePoolFinalizer)
	}
	return nil
}

// setReady computes the condition Ready from what was seen.
func setReady(s *scope) {
	conditions.Set(s.pool, readyCondition(s))
}

func readyCondition(s *scope) metav1.Condition {
	condition := metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse}
	replicas, readyReplicas := len(s.hostMachines), int(s.pool.Status.ReadyReplicas)
	switch {
	case !s.pool.DeletionTimestamp.IsZero():
		condition.Reason = clusterv1.DeletingReason
		condition.Message = fmt.Sprintf("%d machines still to be released", replicas)
	case replicas > s.desired():
		condition.Reason = clusterv1.ScalingDownReason
		condition.Message = fmt.Sprintf("%d of %d machines to be released", replicas-s.desired(), replicas)
	case readyReplicas < s.desired():
		condition.Reason = "Provisioning"
		condition.Message = fmt.Sprintf("%d of %d machines ready%s", readyReplicas, s.desired(), firstProblem(s.hostMachines))
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, "Provisioned"
	}
	return condition
}

// firstProblem quotes the machine that is furthest from running, since its message
// tells an operator most: usually that no host fits.
func firstProblem(machines []infrav1.HostMachine) string {
	for _, conditionType := range []string{infrav1.HostClaimedCondition, infrav1.BootstrapSucceededCondition} {
		for i := range machines {
			m := &machines[i]
			if conditions.IsFalse(m, conditionType) && conditions.GetMessage(m, conditionType) != "" {
				return fmt.Sprintf("; %s: %s", m.Name, conditions.GetMessage(m, conditionType))
			}
		}
	}
	return ""
}
