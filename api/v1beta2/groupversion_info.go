package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the API group and version of this package.
	GroupVersion = schema.GroupVersion{Group: "infrastructure.slipway.dev", Version: "v1beta2"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers every type of this package.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&AgentRelease{}, &AgentReleaseList{},
		&Host{}, &HostList{},
		&HostApprovalPolicy{}, &HostApprovalPolicyList{},
		&HostCluster{}, &HostClusterList{},
		&HostClusterTemplate{}, &HostClusterTemplateList{},
		&HostLogRequest{}, &HostLogRequestList{},
		&HostMachine{}, &HostMachineList{},
		&HostMachineTemplate{}, &HostMachineTemplateList{},
		&HostMachinePool{}, &HostMachinePoolList{},
		&HostMachinePoolTemplate{}, &HostMachinePoolTemplateList{},
		&KubernetesRelease{}, &KubernetesReleaseList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
