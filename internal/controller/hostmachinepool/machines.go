package hostmachinepool

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// machineSettings are the fields of a MachinePool's template that core doesn't
// copy to the Machines of a pool.
type machineSettings struct {
	MinReadySeconds *int32                           `json:"minReadySeconds,omitempty"`
	ReadinessGates  []clusterv1.MachineReadinessGate `json:"readinessGates,omitempty"`
	Deletion        clusterv1.MachineDeletionSpec    `json:"deletion,omitempty,omitzero"`
	Taints          []clusterv1.MachineTaint         `json:"taints,omitempty"`
}

func settingsOf(spec clusterv1.MachineSpec) machineSettings {
	return machineSettings{MinReadySeconds: spec.MinReadySeconds, ReadinessGates: spec.ReadinessGates, Deletion: spec.Deletion, Taints: spec.Taints}
}

// configureMachines applies these settings to the Machines. To one that is being deleted it
// applies the deletion timeouts only, as a MachineSet does: they are mostly changed for a drain
// that does not end.
func (r *Reconciler) configureMachines(ctx context.Context, s *scope) error {
	if s.machinePool == nil { // gone before its pool
		return nil
	}
	template := settingsOf(s.machinePool.Spec.Template.Spec)
	for i := range s.machines {
		machine := &s.machines[i]
		wanted := template
		if !machine.DeletionTimestamp.IsZero() {
			wanted = settingsOf(machine.Spec)
			wanted.Deletion = template.Deletion
		}
		configured, err := configured(machine, wanted)
		if err != nil {
			return err
		}
		if configured {
			continue
		}
		if err := r.applySettings(ctx, machine, wanted); apierrors.IsConflict(err) && !machine.DeletionTimestamp.IsZero() {
			continue // it has gone since it was read
		} else if err != nil {
			return err
		}
	}
	return nil
}

// configured says whether a Machine has the settings already. Those taken out of the
// template show by what this controller still owns on the Machine.
func configured(machine *clusterv1.Machine, wanted machineSettings) (bool, error) {
	has, err := fields(settingsOf(machine.Spec))
	if err != nil {
		return false, err
	}
	wants, err := fields(wanted)
	if err != nil {
		return false, err
	}
	owned, err := ownedSettings(machine.ManagedFields)
	if err != nil {
		return false, fmt.Errorf("read the managed fields of Machine %s: %w", machine.Name, err)
	}
	for name := range owned {
		if _, ok := wants[name]; !ok {
			return false, nil
		}
	}
	// What is right already, mostly by the same default as in the template, isn't
	// worth a write to each of thousands of Machines.
	for name, value := range wants {
		if !equality.Semantic.DeepEqual(has[name], value) {
			return false, nil
		}
	}
	return true, nil
}

// fields flattens settings to one level: deletion timeouts have owners each.
func fields(settings machineSettings) (map[string]any, error) {
	flat, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&settings)
	if err != nil {
		return nil, fmt.Errorf("encode the settings of a Machine: %w", err)
	}
	deletion, _ := flat["deletion"].(map[string]any)
	delete(flat, "deletion")
	for name, value := range deletion {
		flat["deletion."+name] = value
	}
	return flat, nil
}

// ownedSettings are the fields of spec this controller applied before.
func ownedSettings(entries []metav1.ManagedFieldsEntry) (map[string]bool, error) {
	owned := map[string]bool{}
	for _, entry := range entries {
		if entry.Manager != FieldOwner || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, err
		}
		set.Leaves().Iterate(func(path fieldpath.Path) { owned[settingName(path)] = true })
	}
	delete(owned, "")
	return owned, nil
}

// settingName turns spec.deletion.x into deletion.x, and spec.taints[...].key into
// taints; "" stands for what is no setting.
func settingName(path fieldpath.Path) string {
	if len(path) < 2 || path[0].FieldName == nil || *path[0].FieldName != "spec" || path[1].FieldName == nil {
		return ""
	}
	name := *path[1].FieldName
	if name == "deletion" && len(path) > 2 && path[2].FieldName != nil {
		return name + "." + *path[2].FieldName
	}
	return name
}

func (r *Reconciler) applySettings(ctx context.Context, machine *clusterv1.Machine, wanted machineSettings) error {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&wanted)
	if err != nil {
		return fmt.Errorf("encode the settings of a Machine: %w", err)
	}
	apply := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	apply.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
	apply.SetNamespace(machine.Namespace)
	apply.SetName(machine.Name)
	// With the UID, an apply can't bring a deleted Machine back to life.
	apply.SetUID(machine.UID)
	err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(apply), client.FieldOwner(FieldOwner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply the settings of Machine %s: %w", machine.Name, err)
	}
	return nil
}
