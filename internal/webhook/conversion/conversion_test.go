package conversion

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	utilconversion "sigs.k8s.io/cluster-api/util/conversion"

	"github.com/slipway-dev/slipway/api/v1beta1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// TestRoundTrips converts random objects to the other version and back, in both
// directions, and expects the same object.
func TestRoundTrips(t *testing.T) {
	t.Run("Host", utilconversion.SpokeConverterFuzzTestFunc(utilconversion.SpokeConverterFuzzTestFuncInput[*infrav1.Host, *v1beta1.Host]{
		ConvertHubToSpokeFunc: hostToV1Beta1, ConvertSpokeToHubFunc: hostToHub,
	}))
	t.Run("HostCluster", utilconversion.SpokeConverterFuzzTestFunc(utilconversion.SpokeConverterFuzzTestFuncInput[*infrav1.HostCluster, *v1beta1.HostCluster]{
		ConvertHubToSpokeFunc: hostClusterToV1Beta1, ConvertSpokeToHubFunc: hostClusterToHub,
	}))
	t.Run("HostClusterTemplate", utilconversion.SpokeConverterFuzzTestFunc(utilconversion.SpokeConverterFuzzTestFuncInput[*infrav1.HostClusterTemplate, *v1beta1.HostClusterTemplate]{
		ConvertHubToSpokeFunc: hostClusterTemplateToV1Beta1, ConvertSpokeToHubFunc: hostClusterTemplateToHub,
	}))
	t.Run("HostMachine", utilconversion.SpokeConverterFuzzTestFunc(utilconversion.SpokeConverterFuzzTestFuncInput[*infrav1.HostMachine, *v1beta1.HostMachine]{
		ConvertHubToSpokeFunc: hostMachineToV1Beta1, ConvertSpokeToHubFunc: hostMachineToHub,
	}))
	t.Run("HostMachineTemplate", utilconversion.SpokeConverterFuzzTestFunc(utilconversion.SpokeConverterFuzzTestFuncInput[*infrav1.HostMachineTemplate, *v1beta1.HostMachineTemplate]{
		ConvertHubToSpokeFunc: hostMachineTemplateToV1Beta1, ConvertSpokeToHubFunc: hostMachineTemplateToHub,
	}))
	t.Run("HostMachinePool", utilconversion.SpokeConverterFuzzTestFunc(utilconversion.SpokeConverterFuzzTestFuncInput[*infrav1.HostMachinePool, *v1beta1.HostMachinePool]{
		ConvertHubToSpokeFunc: hostMachinePoolToV1Beta1, ConvertSpokeToHubFunc: hostMachinePoolToHub,
	}))
	t.Run("HostMachinePoolTemplate", utilconversion.SpokeConverterFuzzTestFunc(utilconversion.SpokeConverterFuzzTestFuncInput[*infrav1.HostMachinePoolTemplate, *v1beta1.HostMachinePoolTemplate]{
		ConvertHubToSpokeFunc: hostMachinePoolTemplateToV1Beta1, ConvertSpokeToHubFunc: hostMachinePoolTemplateToHub,
	}))
}

// TestVersionsHaveTheSameKinds catches a kind that was added to one version only, but for
// those that came after v1beta1 and that core never reads.
func TestVersionsHaveTheSameKinds(t *testing.T) {
	onlyHub := []string{"HostApprovalPolicy", "HostApprovalPolicyList", "KubernetesRelease", "KubernetesReleaseList", "AgentRelease", "AgentReleaseList", "HostLogRequest", "HostLogRequestList"}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{infrav1.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kinds := func(known map[string]reflect.Type) map[string]bool {
		set := map[string]bool{}
		for kind := range known {
			set[kind] = true
		}
		return set
	}
	hub, spoke := kinds(scheme.KnownTypes(infrav1.GroupVersion)), kinds(scheme.KnownTypes(v1beta1.GroupVersion))
	for _, kind := range onlyHub {
		if !hub[kind] || spoke[kind] {
			t.Errorf("%s is not of v1beta2 alone", kind)
		}
		delete(hub, kind)
	}
	if !reflect.DeepEqual(hub, spoke) {
		t.Errorf("v1beta2 has %v, v1beta1 has %v", hub, spoke)
	}
}

// TestNoAnnotationWithoutNeed: what a controller of ours writes reads in v1beta1
// without an annotation.
func TestNoAnnotationWithoutNeed(t *testing.T) {
	src := &infrav1.HostCluster{Status: infrav1.HostClusterStatus{
		Initialization: initialization(true),
		FailureDomains: []clusterv1.FailureDomain{{Name: "a", ControlPlane: ptr.To(true)}, {Name: "b", ControlPlane: ptr.To(false)}},
	}}
	dst := &v1beta1.HostCluster{}
	if err := hostClusterToV1Beta1(t.Context(), src, dst); err != nil {
		t.Fatal(err)
	}
	if len(dst.Annotations) != 0 {
		t.Errorf("annotations %v", dst.Annotations)
	}
}

// TestEditedInV1Beta1 holds that a change made in v1beta1 wins over what was kept
// of the object as it was before.
func TestEditedInV1Beta1(t *testing.T) {
	before := &infrav1.HostCluster{Status: infrav1.HostClusterStatus{
		Initialization: infrav1.InitializationStatus{Provisioned: ptr.To(false)},
		FailureDomains: []clusterv1.FailureDomain{{Name: "b"}, {Name: "a", ControlPlane: ptr.To(true)}},
	}}
	edited, after := &v1beta1.HostCluster{}, &infrav1.HostCluster{}
	if err := hostClusterToV1Beta1(t.Context(), before, edited); err != nil {
		t.Fatal(err)
	}
	if edited.Annotations[utilconversion.DataAnnotation] == "" || len(before.Annotations) != 0 {
		t.Fatalf("annotations %v, of the source %v", edited.Annotations, before.Annotations)
	}
	edited.Status.Ready = true
	edited.Status.FailureDomains["c"] = v1beta1.FailureDomainSpec{}
	if err := hostClusterToHub(t.Context(), edited, after); err != nil {
		t.Fatal(err)
	}
	if !ptr.Deref(after.Status.Initialization.Provisioned, false) {
		t.Error("status.ready was ignored")
	}
	if got := after.Status.FailureDomains; len(got) != 3 || got[0].Name != "a" || got[2].Name != "c" {
		t.Errorf("failure domains %v", got)
	}
	if _, found := after.Annotations[utilconversion.DataAnnotation]; found {
		t.Error("the annotation would be stored")
	}
}

// TestBrokenAnnotation names the annotation, since only its removal helps.
func TestBrokenAnnotation(t *testing.T) {
	src := &v1beta1.HostMachine{}
	src.SetAnnotations(map[string]string{utilconversion.DataAnnotation: "{"})
	if err := hostMachineToHub(t.Context(), src, &infrav1.HostMachine{}); err == nil {
		t.Error("no error")
	}
}
