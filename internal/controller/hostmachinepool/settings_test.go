package hostmachinepool

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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

// What this controller applied before shows which settings the template had; what others own, and
// what is no setting, is nothing of it.
func TestOwnedSettings(t *testing.T) {
	apply, update := metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	const settings = `{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:minReadySeconds":{},"f:deletion":{"f:nodeDrainTimeoutSeconds":{}},` +
		`"f:taints":{"k:{\"effect\":\"NoSchedule\",\"key\":\"a\"}":{".":{},"f:value":{}}}}}`
	for name, tc := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    []string
		fails   bool
	}{
		"none":                 {},
		"ours":                 {entries: []metav1.ManagedFieldsEntry{entry(FieldOwner, apply, settings)}, want: []string{"deletion.nodeDrainTimeoutSeconds", "minReadySeconds", "taints"}},
		"all of deletion":      {entries: []metav1.ManagedFieldsEntry{entry(FieldOwner, apply, `{"f:spec":{"f:deletion":{}}}`)}, want: []string{"deletion"}},
		"a list in deletion":   {entries: []metav1.ManagedFieldsEntry{entry(FieldOwner, apply, `{"f:spec":{"f:deletion":{"k:{\"a\":\"b\"}":{"f:c":{}}}}}`)}, want: []string{"deletion"}},
		"a list in spec":       {entries: []metav1.ManagedFieldsEntry{entry(FieldOwner, apply, `{"f:spec":{"k:{\"a\":\"b\"}":{"f:c":{}}}}`)}},
		"of another struct":    {entries: []metav1.ManagedFieldsEntry{entry(FieldOwner, apply, `{"f:spec":{"f:bootstrap":{"f:dataSecretName":{}}}}`)}, want: []string{"bootstrap"}},
		"somebody else's":      {entries: []metav1.ManagedFieldsEntry{entry("kubectl", apply, settings)}},
		"updated, not applied": {entries: []metav1.ManagedFieldsEntry{entry(FieldOwner, update, settings)}},
		"no fields":            {entries: []metav1.ManagedFieldsEntry{{Manager: FieldOwner, Operation: apply}}},
		"no setting":           {entries: []metav1.ManagedFieldsEntry{entry(FieldOwner, apply, `{"f:spec":{".":{}},"f:status":{"f:phase":{}},"k:{\"a\":\"b\"}":{"f:c":{}}}`)}},
		"after another's":      {entries: []metav1.ManagedFieldsEntry{entry("kubectl", apply, settings), entry(FieldOwner, apply, `{"f:spec":{"f:minReadySeconds":{}}}`)}, want: []string{"minReadySeconds"}},
		"no fields at all":     {entries: []metav1.ManagedFieldsEntry{entry(FieldOwner, apply, `{"f:`)}, fails: true},
	} {
		got, err := ownedSettings(tc.entries)
		if names := slices.Sorted(maps.Keys(got)); (err != nil) != tc.fails || !slices.Equal(names, tc.want) {
			t.Errorf("%s: %v, %v; want %v", name, names, err, tc.want)
		}
	}
	// A setting that was removed from the template is removed from the Machine.
	machine := &clusterv1.Machine{Spec: FullSpec()}
	machine.ManagedFields = []metav1.ManagedFieldsEntry{entry(FieldOwner, apply, settings)}
	for name, spec := range Without() {
		got, err := configured(machine, settingsOf(spec))
		if want := !slices.Contains([]string{"deletion.nodeDrainTimeoutSeconds", "minReadySeconds", "taints"}, name); err != nil || got != want {
			t.Errorf("without %s: %t, %v", name, got, err)
		}
	}
	machine.ManagedFields = []metav1.ManagedFieldsEntry{entry(FieldOwner, apply, `{"f:`)}
	if _, err := configured(machine, settingsOf(FullSpec())); err == nil {
		t.Error("fields that cannot be read are no error")
	}
}

func entry(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsV1: metav1.NewFieldsV1(fields)}
}

// Machines that lack a setting are written, but for those that are being deleted. What is applied
// names the Machine by its UID, lest it make a Machine that is gone.
func TestSettingsAreApplied(t *testing.T) {
	lacks := func(name string, change ...func(*clusterv1.Machine)) clusterv1.Machine {
		m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name)}}
		for _, c := range change {
			c(&m)
		}
		return m
	}
	s := testScope(testPool())
	s.machinePool.Spec.Template.Spec = FullSpec()
	s.machines = []clusterv1.Machine{
		lacks("a", func(m *clusterv1.Machine) { m.DeletionTimestamp = ptr.To(metav1.Now()) }),
		lacks("b", func(m *clusterv1.Machine) { m.Spec = FullSpec() }),
		lacks("c"), lacks("d"),
	}
	var fails error
	var applied []string
	r := &Reconciler{Client: interceptor.NewClient(nil, interceptor.Funcs{
		Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			text, err := json.Marshal(o)
			if err != nil {
				return err
			}
			how := (&client.ApplyOptions{}).ApplyOptions(options)
			if how.FieldManager != FieldOwner || !ptr.Deref(how.Force, false) {
				t.Errorf("applied by %q, forced %v", how.FieldManager, how.Force)
			}
			applied = append(applied, string(text))
			return fails
		},
	})}
	if err := r.configureMachines(t.Context(), s); err != nil || len(applied) != 3 {
		t.Fatalf("applied %v, error %v", applied, err)
	}
	const timeouts = `"deletion":{"nodeDeletionTimeoutSeconds":32,"nodeDrainTimeoutSeconds":30,"nodeVolumeDetachTimeoutSeconds":31}`
	if want := `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"name":"a","namespace":"ns","uid":"uid-of-a"},"spec":{` + timeouts + `}}`; applied[0] != want {
		t.Errorf("applied %s\nwant %s", applied[0], want)
	}
	s.machines, applied = s.machines[1:], applied[1:]
	for i, name := range []string{"c", "d"} {
		want := `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"name":"` + name + `","namespace":"ns","uid":"uid-of-` + name + `"},"spec":{` +
			timeouts + `,"minReadySeconds":7,` +
			`"readinessGates":[{"conditionType":"GPUReady","polarity":"Positive"}],` +
			`"taints":[{"effect":"NoSchedule","key":"dedicated","propagation":"Always","value":"gpu"}]}}`
		if applied[i] != want {
			t.Errorf("applied %s\nwant %s", applied[i], want)
		}
	}
	fails = errBroken
	if err := r.configureMachines(t.Context(), s); err == nil || len(applied) != 3 {
		t.Errorf("applied %d times, error %v", len(applied), err)
	}
	// A Machine that went since it was read is no error. Nobody reads another one that changed.
	fails = apierrors.NewConflict(schema.GroupResource{}, "a", errBroken)
	going := lacks("a", func(m *clusterv1.Machine) { m.DeletionTimestamp = ptr.To(metav1.Now()) })
	for name, tc := range map[string]struct {
		machines []clusterv1.Machine
		fails    error
		applied  int
		refused  bool
	}{
		"gone":            {[]clusterv1.Machine{going, going}, fails, 2, false},
		"changed":         {[]clusterv1.Machine{lacks("c")}, fails, 1, true},
		"going, and away": {[]clusterv1.Machine{going}, errBroken, 1, true},
		"no MachinePool":  {[]clusterv1.Machine{lacks("c")}, nil, 0, false},
	} {
		applied, fails = nil, tc.fails
		of := testScope(testPool())
		of.machinePool.Spec.Template.Spec, of.machines = FullSpec(), tc.machines
		if name == "no MachinePool" {
			of.machinePool = nil
		}
		if err := r.configureMachines(t.Context(), of); (err != nil) != tc.refused || len(applied) != tc.applied {
			t.Errorf("%s: applied %d times, error %v", name, len(applied), err)
		}
	}
	applied, fails = []string{"", "", ""}, errBroken
	s.machines[1].ManagedFields = []metav1.ManagedFieldsEntry{entry(FieldOwner, metav1.ManagedFieldsOperationApply, `{"f:`)}
	if err := r.configureMachines(t.Context(), s); err == nil || len(applied) != 3 {
		t.Errorf("fields that cannot be read: applied %d times, error %v", len(applied), err)
	}
}
