package doctor

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// unowned adds a HostMachine of an age that no Machine came for.
func unowned(age time.Duration, owners ...metav1.OwnerReference) func(*Snapshot) {
	return func(s *Snapshot) {
		m := infrav1.HostMachine{ObjectMeta: objectMeta("alone")}
		m.CreationTimestamp, m.OwnerReferences = ago(age), owners
		set(&m.Status.Conditions, infrav1.HostClaimedCondition, "False", infrav1.HostMachineWaitingForOwnerReason, "Waiting for a Machine or MachinePool")
		s.HostMachines = append(s.HostMachines, m)
	}
}

var controlPlane = metav1.OwnerReference{Kind: "KubeadmControlPlane", Name: "a"}

var _ = add([]testCase{
	{"no Machine came for a HostMachine", unowned(2*time.Minute, controlPlane), []want{
		{"HostMachineUnowned", Warning, "HostMachine prod/alone", 2 * time.Minute, "KubeadmControlPlane a created it, and no Machine", "kubectl delete hostmachine alone -n prod"},
	}},
	{"a HostMachine by hand", unowned(time.Hour), []want{
		{"HostMachineUnowned", Warning, "HostMachine prod/alone", time.Hour, "Somebody created it", "kubectl delete hostmachine alone -n prod"},
	}},
	{"the Machine of a HostMachine will come", unowned(30*time.Second, controlPlane), nil},
	{"a HostMachine of a Machine", unowned(time.Hour, controlPlane, metav1.OwnerReference{Kind: "Machine", Name: "alone"}), nil},
	{"a HostMachine without a Machine has a host", func(s *Snapshot) {
		unowned(time.Hour, controlPlane)(s)
		s.HostMachines[len(s.HostMachines)-1].Spec.ProviderID = "slipway://prod/host-1/x"
	}, nil},
	{"a HostMachine without a Machine is being deleted", func(s *Snapshot) {
		unowned(time.Hour, controlPlane)(s)
		at := ago(0)
		s.HostMachines[len(s.HostMachines)-1].DeletionTimestamp = &at
	}, nil},
}...)
