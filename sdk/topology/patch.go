package topology

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
)

// carryOver makes in raw the changes between before and after, which a Go type wrote: it may lack fields of
// raw, and write others that raw has not.
func carryOver(raw, before, after []byte) ([]byte, error) {
	var values [3]any
	for i, data := range [][]byte{raw, before, after} {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &values[i]); err != nil {
			return nil, err
		}
	}
	if reflect.DeepEqual(values[1], values[2]) {
		return raw, nil
	}
	return json.Marshal(merge(values[0], values[1], values[2]))
}

func merge(raw, before, after any) any {
	if reflect.DeepEqual(before, after) {
		return raw
	}
	switch to := after.(type) {
	case map[string]any:
		was, ok := before.(map[string]any)
		old, isMap := raw.(map[string]any)
		if !ok || !isMap {
			return after
		}
		merged := maps.Clone(old)
		for name := range was {
			if _, kept := to[name]; !kept {
				delete(merged, name)
			}
		}
		for name, value := range to {
			if have, ok := was[name]; !ok || !reflect.DeepEqual(have, value) {
				merged[name] = merge(old[name], have, value)
			}
		}
		return merged
	case []any:
		was, ok := before.([]any)
		old, isList := raw.([]any)
		if !ok || !isList || len(old) != len(was) {
			return after
		}
		merged := slices.Clone(to)
		for i, value := range to {
			if at := indexOf(was, value, i); at >= 0 {
				merged[i] = old[at]
			} else if len(to) == len(was) {
				merged[i] = merge(old[i], was[i], value)
			}
		}
		return merged
	}
	return after
}

// indexOf finds value in list, at index i if it is there.
func indexOf(list []any, value any, i int) int {
	equal := func(other any) bool { return reflect.DeepEqual(other, value) }
	if i < len(list) && equal(list[i]) {
		return i
	}
	return slices.IndexFunc(list, equal)
}

// difference returns a JSON merge patch, nil when nothing differs. A change that Cluster API would not apply to
// the template of the holder is an error.
func difference(from, to []byte, holder string) ([]byte, error) {
	var values [2]map[string]any
	for i, data := range [][]byte{from, to} {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &values[i]); err != nil {
			return nil, err
		}
	}
	patch := mergePatch(values[0], values[1])
	if len(patch) == 0 {
		return nil, nil
	}
	applied := []string{"spec.template.spec", "spec.template.metadata.labels", "spec.template.metadata.annotations"}
	if holder != "Cluster" && holder != "MachinePool" {
		// Cluster API makes a template of it, with its metadata; of the others it makes the object.
		applied = append(applied, "metadata.labels", "metadata.annotations")
	}
	if path := outside(applied, "", patch); path != "" {
		return nil, fmt.Errorf("changes %s: Cluster API applies only changes of %s", path, strings.Join(applied, ", "))
	}
	return json.Marshal(patch)
}

// outside returns the path of a member that is in none of the applied ones, empty if there is none.
func outside(applied []string, path string, patch map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		at := path + name
		if slices.Contains(applied, at) {
			continue
		}
		members, isMap := patch[name].(map[string]any)
		if !isMap || !slices.ContainsFunc(applied, func(a string) bool { return strings.HasPrefix(a, at+".") }) {
			return at
		}
		if found := outside(applied, at+".", members); found != "" {
			return found
		}
	}
	return ""
}

// mergePatch returns the members that differ. One that becomes null is removed, which is the same to Kubernetes.
func mergePatch(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for name, have := range from {
		if have != nil && to[name] == nil {
			patch[name] = nil
		}
	}
	for name, value := range to {
		have := from[name]
		if value == nil || reflect.DeepEqual(have, value) {
			continue
		}
		patch[name] = value
		if inner, ok := value.(map[string]any); ok {
			was, _ := have.(map[string]any)
			patch[name] = mergePatch(was, inner)
		}
	}
	return patch
}
