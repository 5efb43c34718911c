package providercheck

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// field is a field that a contract wants in the schema of a kind.
type field struct {
	path string
	// kind is the type of the field in OpenAPI.
	kind string
	// items is the type of the elements when kind is array.
	items string
}

// mandatory fields of each shape, by contract.
var mandatory = map[string]map[shape][]field{
	"v1beta1": {
		cluster: {
			{"spec.controlPlaneEndpoint.host", "string", ""}, {"spec.controlPlaneEndpoint.port", "integer", ""}, {"status.ready", "boolean", ""},
		},
		clusterTemplate: {{"spec.template.spec", "object", ""}},
		machine:         {{"spec.providerID", "string", ""}, {"status.ready", "boolean", ""}},
		machineTemplate: {{"spec.template.spec", "object", ""}},
		machinePool: {
			{"spec.providerIDList", "array", "string"}, {"status.ready", "boolean", ""}, {"status.replicas", "integer", ""},
		},
		machinePoolTemplate:  {{"spec.template.spec", "object", ""}},
		config:               {{"status.dataSecretName", "string", ""}, {"status.ready", "boolean", ""}},
		configTemplate:       {{"spec.template.spec", "object", ""}},
		controlPlane:         {{"status.initialized", "boolean", ""}},
		controlPlaneTemplate: {{"spec.template.spec", "object", ""}},
	},
	"v1beta2": {
		cluster: {
			{"spec.controlPlaneEndpoint.host", "string", ""}, {"spec.controlPlaneEndpoint.port", "integer", ""},
			{"status.initialization.provisioned", "boolean", ""},
		},
		clusterTemplate: {{"spec.template.spec", "object", ""}},
		machine:         {{"spec.providerID", "string", ""}, {"status.initialization.provisioned", "boolean", ""}},
		machineTemplate: {{"spec.template.spec", "object", ""}},
		machinePool: {
			{"spec.providerIDList", "array", "string"}, {"status.ready", "boolean", ""}, {"status.replicas", "integer", ""},
		},
		machinePoolTemplate:  {{"spec.template.spec", "object", ""}},
		config:               {{"status.dataSecretName", "string", ""}, {"status.initialization.dataSecretCreated", "boolean", ""}},
		configTemplate:       {{"spec.template.spec", "object", ""}},
		controlPlane:         {{"status.initialization.controlPlaneInitialized", "boolean", ""}},
		controlPlaneTemplate: {{"spec.template.spec", "object", ""}},
	},
}

// optional fields must have the right type when they are there.
var optional = map[string]map[shape][]field{
	"v1beta1": {
		cluster: {
			{"status.failureReason", "string", ""}, {"status.failureMessage", "string", ""}, {"status.failureDomains", "object", ""},
			{"status.conditions", "array", "object"},
		},
		machine: {{"status.addresses", "array", "object"}, {"status.conditions", "array", "object"}, {"status.failureDomain", "string", ""}},
		machinePool: {
			{"spec.providerID", "string", ""}, {"status.instances", "array", "object"}, {"status.infrastructureMachineKind", "string", ""},
			{"status.conditions", "array", "object"}, {"status.failureReason", "string", ""}, {"status.failureMessage", "string", ""},
		},
	},
	"v1beta2": {
		cluster: {{"status.failureDomains", "array", "object"}, {"status.conditions", "array", "object"}},
		machine: {{"status.addresses", "array", "object"}, {"status.conditions", "array", "object"}, {"status.failureDomain", "string", ""}},
		machinePool: {
			{"spec.providerID", "string", ""}, {"status.instances", "array", "object"}, {"status.infrastructureMachineKind", "string", ""},
			{"status.conditions", "array", "object"}, {"status.initialization.provisioned", "boolean", ""},
			{"status.failureReason", "string", ""}, {"status.failureMessage", "string", ""},
		},
	},
}

var fieldRules = []Rule{
	{
		ID: "field-mandatory", Level: Must, Contract: "InfraMachinePool contract; InfraCluster specification, 5 and 6",
		Title:  "A kind has the fields that its contract makes mandatory",
		Remedy: "add the field to the type and generate the CRD again",
		check: func(r *Release, found report) {
			eachVersion(r, func(o *Object, s shape, c, name string, at []string, root any) {
				for _, f := range mandatory[c][s] {
					if f.in(root) == nil {
						found(o.at(at...), fmt.Sprintf("version %s has contract %s and no %s", name, c, f.path))
					}
				}
			})
		},
	},
	{
		ID: "field-type", Level: Must, Contract: "InfraMachinePool contract; InfraCluster specification, 5 and 6",
		Title:  "A field of a contract has the type that core reads",
		Remedy: "give the field that type: core fails to read the object otherwise",
		check: func(r *Release, found report) {
			eachVersion(r, func(o *Object, s shape, c, name string, at []string, root any) {
				for _, f := range slices.Concat(mandatory[c][s], optional[c][s]) {
					if why := f.mistyped(f.in(root)); why != "" {
						found(o.at(at...), fmt.Sprintf("%s of version %s %s", f.path, name, why))
					}
				}
			})
		},
	},
	{
		ID: "field-conditions", Level: Should, Contract: "InfraMachinePool contract, conditions",
		Title:  "A kind has conditions, each with type and status",
		Remedy: "add status.conditions of metav1.Condition: core mirrors Ready into the owner",
		check: func(r *Release, found report) {
			eachVersion(r, func(o *Object, s shape, _, name string, at []string, root any) {
				if s != cluster && s != machine && s != machinePool {
					return
				}
				items := field{path: "status.conditions.items"}.in(root)
				if get(items, "properties", "type") == nil || get(items, "properties", "status") == nil {
					found(o.at(at...), fmt.Sprintf("version %s has no status.conditions with type and status", name))
				}
			})
		},
	},
	{
		ID: "field-initialization", Level: Should, Contract: "InfraMachinePool contract, initialization completed",
		Title:  "A pool has status.initialization.provisioned beside status.ready",
		Remedy: "add status.initialization.provisioned and set both: core will read it in place of status.ready",
		check: func(r *Release, found report) {
			eachVersion(r, func(o *Object, s shape, c, name string, at []string, root any) {
				if s == machinePool && c == "v1beta2" && (field{path: "status.initialization.provisioned"}).in(root) == nil {
					found(o.at(at...), fmt.Sprintf("version %s has no status.initialization.provisioned", name))
				}
			})
		},
	},
	{
		ID: "field-template", Level: Should, Contract: "InfraMachinePool contract, InfraMachinePoolTemplate",
		Title:  "A template does not carry what belongs to one object",
		Remedy: "leave providerID and providerIDList out of the template's spec",
		check: func(r *Release, found report) {
			eachVersion(r, func(o *Object, s shape, _, name string, at []string, root any) {
				if s != machinePoolTemplate && s != machineTemplate {
					return
				}
				for _, own := range []string{"spec.template.spec.providerID", "spec.template.spec.providerIDList"} {
					if (field{path: own}).in(root) != nil {
						found(o.at(at...), fmt.Sprintf("version %s has %s", name, own))
					}
				}
			})
		},
	},
}

// eachVersion calls f for each version of each kind that a contract label names; root
// is its schema.
func eachVersion(r *Release, f func(o *Object, s shape, contract, version string, at []string, root any)) {
	eachContractCRD(r, func(o *Object, s shape) {
		byContract := versionsOf(o)
		for _, c := range slices.Sorted(maps.Keys(byContract)) {
			for _, name := range byContract[c] {
				i, v := findVersion(o, name)
				if i < 0 {
					continue
				}
				at := []string{"spec", "versions", fmt.Sprint(i), "schema"}
				f(o, s, c, name, at, get(v, "schema", "openAPIV3Schema"))
			}
		}
	})
}

// in walks down a schema; a part called items stands for the elements of a list.
func (f field) in(schema any) any {
	for name := range strings.SplitSeq(f.path, ".") {
		if name == "items" {
			schema = get(schema, "items")
			continue
		}
		schema = get(schema, "properties", name)
	}
	return schema
}

// mistyped says how a schema differs from what the contract wants; "" when it
// doesn't, or when the field is not there.
func (f field) mistyped(schema any) string {
	switch kind := text(schema, "type"); {
	case schema == nil:
		return ""
	case kind != f.kind:
		return fmt.Sprintf("is of type %s, not %s", kind, f.kind)
	case f.items != "" && text(schema, "items", "type") != f.items:
		return fmt.Sprintf("holds elements of type %s, not %s", text(schema, "items", "type"), f.items)
	default:
		return ""
	}
}
