package conversion

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/slipway-dev/slipway/api/v1beta1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

func hostMachineToV1Beta1(_ context.Context, src *infrav1.HostMachine, dst *v1beta1.HostMachine) error {
	dst.ObjectMeta, dst.Spec = src.ObjectMeta, src.Spec
	dst.Status = v1beta1.HostMachineStatus{
		Ready:         ptr.Deref(src.Status.Initialization.Provisioned, false),
		Addresses:     src.Status.Addresses,
		FailureDomain: src.Status.FailureDomain,
		Version:       src.Status.Version,
		HostRef:       src.Status.HostRef,
		Conditions:    src.Status.Conditions,
	}
	if equality.Semantic.DeepEqual(hostMachineStatusToHub(dst.Status), src.Status) {
		return nil
	}
	return keep(dst, &infrav1.HostMachine{Status: infrav1.HostMachineStatus{Initialization: src.Status.Initialization}})
}

func hostMachineToHub(_ context.Context, src *v1beta1.HostMachine, dst *infrav1.HostMachine) error {
	kept := &infrav1.HostMachine{}
	if err := restore(src, kept); err != nil {
		return err
	}
	dst.ObjectMeta, dst.Spec = src.ObjectMeta, src.Spec
	dst.Status = hostMachineStatusToHub(src.Status)
	if ptr.Deref(kept.Status.Initialization.Provisioned, false) == src.Status.Ready {
		dst.Status.Initialization = kept.Status.Initialization
	}
	return nil
}

func hostMachineStatusToHub(src v1beta1.HostMachineStatus) infrav1.HostMachineStatus {
	return infrav1.HostMachineStatus{
		Initialization: initialization(src.Ready),
		Addresses:      src.Addresses,
		FailureDomain:  src.FailureDomain,
		Version:        src.Version,
		HostRef:        src.HostRef,
		Conditions:     src.Conditions,
	}
}
