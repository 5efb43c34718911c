package manager

import (
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	"github.com/slipway-dev/slipway/api/v1beta1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// AddToScheme registers every type the provider reads or writes.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, rbacv1.AddToScheme, certificatesv1.AddToScheme,
		clusterv1.AddToScheme, controlplanev1.AddToScheme, infrav1.AddToScheme, lifecyclev1.AddToScheme, v1beta1.AddToScheme, runtimev1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("register API types: %w", err)
		}
	}
	return nil
}

// CacheByObject keeps the cache to the Leases, Roles and RoleBindings of hosts, to
// the Secrets that hand agents over, and to HostLogRequests without the logs in them. A manager
// without it would hold those of the whole cluster.
func CacheByObject() (map[client.Object]cache.ByObject, error) {
	ofHosts, err := labels.NewRequirement(infrav1.HostLabel, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("select the objects of hosts: %w", err)
	}
	selected := cache.ByObject{Label: labels.NewSelector().Add(*ofHosts)}
	return map[client.Object]cache.ByObject{
		&infrav1.HostLogRequest{}: {Transform: withoutLog},
		&coordinationv1.Lease{}:   selected,
		&rbacv1.Role{}:            selected,
		&rbacv1.RoleBinding{}:     selected,
		&corev1.Secret{}:          {Field: fields.OneTermEqualSelector(metav1.ObjectNameField, infrav1.HandOverSecretName)},
	}, nil
}

// withoutLog takes the log out of a HostLogRequest.
func withoutLog(o any) (any, error) {
	if request, ok := o.(*infrav1.HostLogRequest); ok {
		request.Status.Text = ""
	}
	return o, nil
}
