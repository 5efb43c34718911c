package conversion

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/slipway-dev/slipway/api/v1beta1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

func hostMachinePoolToV1Beta1(_ context.Context, src *infrav1.HostMachinePool, dst *v1beta1.HostMachinePool) error {
	dst.ObjectMeta, dst.Spec = src.ObjectMeta, src.Spec
	dst.Status = v1beta1.HostMachinePoolStatus{
		Ready:                     src.Status.Ready,
		Replicas:                  src.Status.Replicas,
		ReadyReplicas:             src.Status.ReadyReplicas,
		AvailableReplicas:         src.Status.AvailableReplicas,
		UpdatedReplicas:           src.Status.UpdatedReplicas,
		Revision:                  src.Status.Revision,
		Rollout:                   src.Status.Rollout,
		Capacity:                  src.Status.Capacity,
		NodeInfo:                  src.Status.NodeInfo,
		InfrastructureMachineKind: src.Status.InfrastructureMachineKind,
		Instances:                 src.Status.Instances,
		Conditions:                src.Status.Conditions,
	}
	if equality.Semantic.DeepEqual(hostMachinePoolStatusToHub(dst.Status), src.Status) {
		return nil
	}
	return keep(dst, &infrav1.HostMachinePool{Status: infrav1.HostMachinePoolStatus{
		Ready: src.Status.Ready, Initialization: src.Status.Initialization,
	}})
}

func hostMachinePoolToHub(_ context.Context, src *v1beta1.HostMachinePool, dst *infrav1.HostMachinePool) error {
	kept := &infrav1.HostMachinePool{}
	if err := restore(src, kept); err != nil {
		return err
	}
	dst.ObjectMeta, dst.Spec = src.ObjectMeta, src.Spec
	dst.Status = hostMachinePoolStatusToHub(src.Status)
	if kept.Status.Ready == src.Status.Ready {
		dst.Status.Initialization = kept.Status.Initialization
	}
	return nil
}

func hostMachinePoolStatusToHub(src v1beta1.HostMachinePoolStatus) infrav1.HostMachinePoolStatus {
	return infrav1.HostMachinePoolStatus{
		Ready:                     src.Ready,
		Initialization:            initialization(src.Ready),
		Replicas:                  src.Replicas,
		ReadyReplicas:             src.ReadyReplicas,
		AvailableReplicas:         src.AvailableReplicas,
		UpdatedReplicas:           src.UpdatedReplicas,
		Revision:                  src.Revision,
		Rollout:                   src.Rollout,
		Capacity:                  src.Capacity,
		NodeInfo:                  src.NodeInfo,
		InfrastructureMachineKind: src.InfrastructureMachineKind,
		Instances:                 src.Instances,
		Conditions:                src.Conditions,
	}
}
