package hostmachinepool

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ofCore are the fields of a template that core writes to the Machines of a pool, or finds out
// itself, and FailureDomain, which the pool's spread chooses for each member.
var ofCore = []string{"ClusterName", "Bootstrap", "InfrastructureRef", "Version", "ProviderID", "FailureDomain"}

// FullSpec has every setting.
func FullSpec() clusterv1.MachineSpec {
	return clusterv1.MachineSpec{
		MinReadySeconds: ptr.To(int32(7)),
		ReadinessGates:  []clusterv1.MachineReadinessGate{{ConditionType: "GPUReady", Polarity: clusterv1.PositivePolarityCondition}},
		Deletion: clusterv1.MachineDeletionSpec{
			NodeDrainTimeoutSeconds: ptr.To(int32(30)), NodeVolumeDetachTimeoutSeconds: ptr.To(int32(31)), NodeDeletionTimeoutSeconds: ptr.To(int32(32)),
		},
		Taints: []clusterv1.MachineTaint{
			{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule, Propagation: clusterv1.MachineTaintPropagationAlways},
		},
	}
}

// Each field of a template reaches the Machines of a pool, by core or by us, those of versions of
// Cluster API to come among them.
func TestEverySettingReachesMachines(t *testing.T) {
	full := FullSpec()
	spec, settings := reflect.ValueOf(full), reflect.ValueOf(settingsOf(full))
	for i := range spec.NumField() {
		name := spec.Type().Field(i).Name
		setting := settings.FieldByName(name)
		switch {
		case slices.Contains(ofCore, name):
		case !setting.IsValid():
			t.Errorf("nobody brings spec.template.spec.%s to the Machines of a pool", name)
		case spec.Field(i).IsZero():
			t.Errorf("FullSpec lacks %s", name)
		case !reflect.DeepEqual(spec.Field(i).Interface(), setting.Interface()):
			t.Errorf("%s is %v in the settings, want %v", name, setting, spec.Field(i))
		}
	}
	deletion := reflect.ValueOf(full.Deletion)
	for i := range deletion.NumField() {
		if deletion.Field(i).IsZero() {
			t.Errorf("FullSpec lacks deletion.%s", deletion.Type().Field(i).Name)
		}
	}
	// Core writes those itself, and knows nothing of the others.
	for _, name := range ofCore {
		if settings.FieldByName(name).IsValid() {
			t.Errorf("%s is core's", name)
		}
	}
}

// Without are the full spec without one setting each, by its name.
func Without() map[string]clusterv1.MachineSpec {
	specs := map[string]clusterv1.MachineSpec{}
	for name, drop := range map[string]func(*clusterv1.MachineSpec){
		"minReadySeconds":                         func(s *clusterv1.MachineSpec) { s.MinReadySeconds = nil },
		"readinessGates":                          func(s *clusterv1.MachineSpec) { s.ReadinessGates = nil },
		"taints":                                  func(s *clusterv1.MachineSpec) { s.Taints = nil },
		"deletion.nodeDrainTimeoutSeconds":        func(s *clusterv1.MachineSpec) { s.Deletion.NodeDrainTimeoutSeconds = nil },
		"deletion.nodeVolumeDetachTimeoutSeconds": func(s *clusterv1.MachineSpec) { s.Deletion.NodeVolumeDetachTimeoutSeconds = nil },
		"deletion.nodeDeletionTimeoutSeconds":     func(s *clusterv1.MachineSpec) { s.Deletion.NodeDeletionTimeoutSeconds = nil },
	} {
		spec := FullSpec()
		drop(&spec)
		specs[name] = spec
	}
	return specs
}

// A Machine that lacks any setting, or has another value of it, is written; one that has all is not.
func TestMachineIsConfigured(t *testing.T) {
	flat, err := fields(settingsOf(FullSpec()))
	if err != nil {
		t.Fatal(err)
	}
	lacking := Without()
	for name := range flat {
		if _, ok := lacking[name]; !ok {
			t.Errorf("no test drops %s", name)
		}
	}
	for name, spec := range lacking {
		for _, tc := range []struct {
			machine, template clusterv1.MachineSpec
			want              bool
		}{
			{spec, FullSpec(), false}, // it is new in the template
			{spec, spec, true},
			{FullSpec(), FullSpec(), true},
			{FullSpec(), spec, true}, // somebody else's
		} {
			got, err := configured(&clusterv1.Machine{Spec: tc.machine}, settingsOf(tc.template))
			if err != nil || got != tc.want {
				t.Errorf("%s: %t, %v; want %t", name, got, err, tc.want)
			}
		}
	}
	other := FullSpec()
	other.Taints[0].Value = "tpu"
	if got, err := configured(&clusterv1.Machine{Spec: other}, settingsOf(FullSpec())); err != nil || got {
		t.Errorf("another value: %t, %v", got, err)
	}
}
