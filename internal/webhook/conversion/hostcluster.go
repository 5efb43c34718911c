package conversion

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/api/v1beta1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

func hostClusterToV1Beta1(_ context.Context, src *infrav1.HostCluster, dst *v1beta1.HostCluster) error {
	dst.ObjectMeta, dst.Spec = src.ObjectMeta, hostClusterSpecToV1Beta1(src.Spec)
	dst.Status = hostClusterStatusToV1Beta1(src.Status)
	if equality.Semantic.DeepEqual(hostClusterStatusToHub(dst.Status), src.Status) {
		return nil
	}
	return keep(dst, &infrav1.HostCluster{Status: infrav1.HostClusterStatus{
		Initialization: src.Status.Initialization, FailureDomains: src.Status.FailureDomains,
	}})
}

func hostClusterToHub(_ context.Context, src *v1beta1.HostCluster, dst *infrav1.HostCluster) error {
	kept := &infrav1.HostCluster{}
	if err := restore(src, kept); err != nil {
		return err
	}
	dst.ObjectMeta, dst.Spec = src.ObjectMeta, hostClusterSpecToHub(src.Spec)
	dst.Status = hostClusterStatusToHub(src.Status)
	// What was kept counts only as long as v1beta1 says the same as it did then.
	before := hostClusterStatusToV1Beta1(kept.Status)
	if before.Ready == src.Status.Ready {
		dst.Status.Initialization = kept.Status.Initialization
	}
	if equality.Semantic.DeepEqual(before.FailureDomains, src.Status.FailureDomains) {
		dst.Status.FailureDomains = kept.Status.FailureDomains
	}
	return nil
}

func hostClusterTemplateToV1Beta1(_ context.Context, src *infrav1.HostClusterTemplate, dst *v1beta1.HostClusterTemplate) error {
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec.Template = v1beta1.HostClusterTemplateResource{
		ObjectMeta: src.Spec.Template.ObjectMeta, Spec: hostClusterSpecToV1Beta1(src.Spec.Template.Spec),
	}
	return nil
}

func hostClusterTemplateToHub(_ context.Context, src *v1beta1.HostClusterTemplate, dst *infrav1.HostClusterTemplate) error {
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec.Template = infrav1.HostClusterTemplateResource{
		ObjectMeta: src.Spec.Template.ObjectMeta, Spec: hostClusterSpecToHub(src.Spec.Template.Spec),
	}
	return nil
}

func hostClusterSpecToV1Beta1(src infrav1.HostClusterSpec) v1beta1.HostClusterSpec {
	return v1beta1.HostClusterSpec{
		ControlPlaneEndpoint: v1beta1.APIEndpoint(src.ControlPlaneEndpoint),
		Endpoint:             src.Endpoint,
		FailureDomainLabel:   src.FailureDomainLabel,
		FailureDomains:       src.FailureDomains,
	}
}

// hostClusterSpecToHub leaves out what is empty: v1beta2 has no empty host and no port 0.
func hostClusterSpecToHub(src v1beta1.HostClusterSpec) infrav1.HostClusterSpec {
	return infrav1.HostClusterSpec{
		ControlPlaneEndpoint: clusterv1.APIEndpoint(src.ControlPlaneEndpoint),
		Endpoint:             src.Endpoint,
		FailureDomainLabel:   src.FailureDomainLabel,
		FailureDomains:       src.FailureDomains,
	}
}

func hostClusterStatusToV1Beta1(src infrav1.HostClusterStatus) v1beta1.HostClusterStatus {
	return v1beta1.HostClusterStatus{
		Ready:          ptr.Deref(src.Initialization.Provisioned, false),
		FailureReason:  src.DeprecatedVersions.V1Beta1.FailureReason,
		FailureMessage: src.DeprecatedVersions.V1Beta1.FailureMessage,
		FailureDomains: failureDomainMap(src.FailureDomains),
		Conditions:     src.Conditions,
	}
}

func hostClusterStatusToHub(src v1beta1.HostClusterStatus) infrav1.HostClusterStatus {
	return infrav1.HostClusterStatus{
		Initialization: initialization(src.Ready),
		FailureDomains: failureDomainList(src.FailureDomains),
		Conditions:     src.Conditions,
		DeprecatedVersions: infrav1.HostClusterDeprecatedStatus{V1Beta1: infrav1.HostClusterV1Beta1DeprecatedStatus{
			FailureReason: src.FailureReason, FailureMessage: src.FailureMessage,
		}},
	}
}

func failureDomainMap(list []clusterv1.FailureDomain) map[string]v1beta1.FailureDomainSpec {
	if len(list) == 0 {
		return nil
	}
	domains := make(map[string]v1beta1.FailureDomainSpec, len(list))
	for _, d := range list {
		domains[d.Name] = v1beta1.FailureDomainSpec{ControlPlane: ptr.Deref(d.ControlPlane, false), Attributes: d.Attributes}
	}
	return domains
}

// failureDomainList is sorted by name, as Cluster API sorts it.
func failureDomainList(domains map[string]v1beta1.FailureDomainSpec) []clusterv1.FailureDomain {
	var list []clusterv1.FailureDomain
	for _, name := range slices.Sorted(maps.Keys(domains)) {
		d := domains[name]
		list = append(list, clusterv1.FailureDomain{Name: name, ControlPlane: ptr.To(d.ControlPlane), Attributes: d.Attributes})
	}
	return list
}
