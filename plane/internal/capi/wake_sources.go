package capi

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// controlPlaneInitialized fires when a cluster's control plane came up. Configs
// of workers wait for it with a poll of 30 s (kubeadmconfig), and MachinePools
// begin to watch Nodes only then (machinepool).
func (e *env) controlPlaneInitialized() wakeSource {
	return func(to toRequests) source.Source {
		return source.Kind(e.GetCache(), client.Object(&clusterv1.Cluster{}),
			handler.EnqueueRequestsFromMapFunc(to),
			predicates.ClusterControlPlaneInitialized(e.GetScheme(), e.GetLogger()))
	}
}

// controlPlaneChanged fires when the state of a control plane changed. A
// MachineSet whose preflight checks failed on it looks again after 15 s.
func (e *env) controlPlaneChanged() wakeSource {
	return func(to toRequests) source.Source {
		kcp := &unstructured.Unstructured{}
		kcp.SetGroupVersionKind(controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"))
		return source.Kind(e.GetCache(), client.Object(kcp),
			handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []ctrl.Request {
				cluster := &clusterv1.Cluster{}
				key := client.ObjectKey{Namespace: o.GetNamespace(), Name: o.GetLabels()[clusterv1.ClusterNameLabel]}
				if err := e.GetClient().Get(ctx, key, cluster); err != nil {
					return nil
				}
				return to(ctx, cluster)
			}),
			predicate.Funcs{
				CreateFunc:  func(event.CreateEvent) bool { return false },
				DeleteFunc:  func(event.DeleteEvent) bool { return false },
				GenericFunc: func(event.GenericEvent) bool { return false },
				UpdateFunc: func(u event.UpdateEvent) bool {
					return !reflect.DeepEqual(field(u.ObjectOld, "status"), field(u.ObjectNew, "status"))
				},
			})
	}
}

func field(o client.Object, name string) any {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	return u.Object[name]
}
