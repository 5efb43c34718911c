package providercheck

import (
	"fmt"
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
			{"status.ready", "boolean", ""},
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

// endpoint is mandatory only where nobody else gives it; its fields are wherever it is.
var (
	endpoint       = field{path: "spec.controlPlaneEndpoint"}
	endpointFields = []field{{"spec.controlPlaneEndpoint.host", "string", ""}, {"spec.controlPlaneEndpoint.port", "integer", ""}}
)

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
				if s == cluster && endpoint.in(root) != nil {
					for _, f := range endpointFields {
						if f.in(root) == nil {
							found(o.at(at...), fmt.Sprintf("version %s has %s without %s", name, endpoint.path, f.path))
						}
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
				fields := slices.Concat(mandatory[c][s], optional[c][s])
				if s == cluster {
					fields = append(fields, endpointFields...)
				}
				for _, f := range fields {
					if why := f.mistyped(f.in(root)); why != "" {
						found(o.at(at...), fmt.Sprintf("%s of version %s %s", f.path, name, why))
					}
				}
			})
		},
	},
	{
		ID: "field-endpoint", Level: Should, Contract: "InfraCluster contract, control plane endpoint",
		Title:  "A cluster of the infrastructure has an endpoint of its control plane",
		Remedy: "add spec.controlPlaneEndpoint with host and port, unless the control plane or the user always gives the endpoint",
		check: func(r *Release, found report) {
			eachVersion(r, func(o *Object, s shape, _, name string, at []string, root any) {
				if s == cluster && endpoint.in(root) == nil {
					found(o.at(at...), fmt.Sprintf("version %s has no %s", name, endpoint.path))
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
				of := func(name string) any { return field{path: "status.conditions.items." + name}.in(root) }
				if of("type") == nil || of("status") == nil {
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
		ID: "field-template", Level: May, Contract: "InfraMachinePool contract, InfraMachinePoolTemplate",
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

// eachVersion calls f for the version of each kind that Cluster API reads; root is its schema.
func eachVersion(r *Release, f func(o *Object, s shape, contract, version string, at []string, root any)) {
	eachContractCRD(r, func(o *Object, s shape) {
		c, name := chosenVersion(o)
		if i, v := findVersion(o, name); i >= 0 {
			f(o, s, c, name, []string{"spec", "versions", fmt.Sprint(i), "schema"}, get(v, "schema", "openAPIV3Schema"))
		}
	})
}

// anything is the schema below a field that accepts anything.
var anything = map[string]any{}

// in walks down a schema; a part called items stands for the elements of a list.
func (f field) in(schema any) any {
	for name := range strings.SplitSeq(f.path, ".") {
		preserved, _ := get(schema, "x-kubernetes-preserve-unknown-fields").(bool)
		if (preserved || get(schema, "additionalProperties") != nil) && get(schema, "properties", name) == nil {
			return anything
		}
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
	case schema == nil, kind == "": // absent, or of any type
		return ""
	case kind != f.kind:
		return fmt.Sprintf("is of type %s, not %s", kind, f.kind)
	case f.items != "" && text(schema, "items", "type") != f.items:
		return fmt.Sprintf("holds elements of type %s, not %s", text(schema, "items", "type"), f.items)
	default:
		return ""
	}
}
