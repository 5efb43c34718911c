package capi

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	addonsv1beta1 "sigs.k8s.io/cluster-api/api/addons/v1beta1"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1alpha1 "sigs.k8s.io/cluster-api/api/ipam/v1alpha1"
	ipamv1beta1 "sigs.k8s.io/cluster-api/api/ipam/v1beta1"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	runtimev1alpha1 "sigs.k8s.io/cluster-api/api/runtime/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// AddToScheme adds the types of an API group.
type AddToScheme func(*runtime.Scheme) error

// The types each provider of upstream registers in its main.
var (
	commonTypes = []AddToScheme{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme}

	coreTypes = []AddToScheme{
		storagev1.AddToScheme, clusterv1beta1.AddToScheme,
		addonsv1beta1.AddToScheme, addonsv1.AddToScheme,
		runtimev1alpha1.AddToScheme, runtimev1.AddToScheme,
		ipamv1alpha1.AddToScheme, ipamv1beta1.AddToScheme, ipamv1.AddToScheme,
	}
	bootstrapTypes    = []AddToScheme{bootstrapv1beta1.AddToScheme, bootstrapv1.AddToScheme}
	controlPlaneTypes = []AddToScheme{
		controlplanev1beta1.AddToScheme, controlplanev1.AddToScheme,
		bootstrapv1.AddToScheme, runtimev1.AddToScheme,
	}
)

func newScheme(groups ...[]AddToScheme) (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, group := range append([][]AddToScheme{commonTypes}, groups...) {
		for _, add := range group {
			if err := add(s); err != nil {
				return nil, fmt.Errorf("scheme: %w", err)
			}
		}
	}
	return s, nil
}
