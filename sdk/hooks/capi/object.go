package capi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
)

// objectOf returns what a request of Cluster API is about: the Cluster, or the
// machines that are to be updated in place.
func objectOf(request runtime.Object) hook.ObjectReference {
	switch r := request.(type) {
	case *hooksv1.BeforeClusterCreateRequest:
		return reference("Cluster", &r.Cluster)
	case *hooksv1.AfterControlPlaneInitializedRequest:
		return reference("Cluster", &r.Cluster)
	case *hooksv1.BeforeClusterUpgradeRequest:
		return reference("Cluster", &r.Cluster)
	case *hooksv1.BeforeControlPlaneUpgradeRequest:
		return reference("Cluster", &r.Cluster)
	case *hooksv1.AfterControlPlaneUpgradeRequest:
		return reference("Cluster", &r.Cluster)
	case *hooksv1.BeforeWorkersUpgradeRequest:
		return reference("Cluster", &r.Cluster)
	case *hooksv1.AfterWorkersUpgradeRequest:
		return reference("Cluster", &r.Cluster)
	case *hooksv1.AfterClusterUpgradeRequest:
		return reference("Cluster", &r.Cluster)
	case *hooksv1.BeforeClusterDeleteRequest:
		return reference("Cluster", &r.Cluster)
	case *hooksv1.GenerateUpgradePlanRequest:
		return reference("Cluster", &r.Cluster)
	case *hooksv1.GeneratePatchesRequest:
		for _, item := range r.Items {
			if object, ok := holder(item.HolderReference); ok {
				return object
			}
		}
	case *hooksv1.ValidateTopologyRequest:
		for _, item := range r.Items {
			if object, ok := holder(item.HolderReference); ok {
				return object
			}
		}
	case *hooksv1.CanUpdateMachineRequest:
		return reference("Machine", &r.Desired.Machine)
	case *hooksv1.CanUpdateMachineSetRequest:
		return reference("MachineSet", &r.Desired.MachineSet)
	case *hooksv1.UpdateMachineRequest:
		return reference("Machine", &r.Desired.Machine)
	}
	return hook.ObjectReference{}
}

func reference(kind string, object metav1.Object) hook.ObjectReference {
	if object.GetName() == "" {
		return hook.ObjectReference{}
	}
	return hook.ObjectReference{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// holder returns the Cluster that holds a template. The template of its control plane
// and of its workers are held by objects of theirs.
func holder(r hooksv1.HolderReference) (hook.ObjectReference, bool) {
	return hook.ObjectReference{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}, r.Kind == "Cluster"
}
