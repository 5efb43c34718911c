package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// read decodes the request and the response of a handler. Without them, and of a refusal, there is nothing to judge.
func read[Request, Response any](h *handler) (request Request, response Response, err error) {
	return request, response, errors.Join(json.Unmarshal(h.request, &request), json.Unmarshal(h.answer, &response))
}

// reordered asks for the patches of the same templates in another order and with other UIDs, which Cluster API makes
// anew for each request.
func reordered(ctx context.Context, h *handler) outcome {
	request, _, err := read[hooksv1.GeneratePatchesRequest, hooksv1.GeneratePatchesResponse](h)
	if err != nil {
		return outcome{err: err}
	}
	original := map[types.UID]types.UID{}
	for i := range request.Items {
		uid := types.UID(fmt.Sprintf("7d3f6b1e-0c52-4c8f-9a41-%012d", i))
		original[uid], request.Items[i].UID = request.Items[i].UID, uid
	}
	slices.Reverse(request.Items)
	body, err := json.Marshal(request)
	if err != nil {
		return outcome{err: err}
	}
	answer, err := h.post(ctx, body)
	if err != nil {
		return failed("the same templates in another order: %w", err)
	}
	first, err := patches(h.answer, nil)
	if err != nil {
		return outcome{err: err}
	}
	if again, err := patches(answer, original); err != nil || !reflect.DeepEqual(first, again) {
		return failed("the same templates in another order and with other UIDs get other patches: Cluster API makes both anew for each request, so that machines are rolled out again and again")
	}
	return outcome{}
}

// patches are those of an answer by their template, in their order.
func patches(answer []byte, original map[types.UID]types.UID) (map[types.UID][]any, error) {
	var response hooksv1.GeneratePatchesResponse
	if err := json.Unmarshal(answer, &response); err != nil {
		return nil, err
	}
	all := map[types.UID][]any{}
	for _, item := range response.Items {
		if uid, ok := original[item.UID]; ok {
			item.UID = uid
		}
		var patch any
		if err := json.Unmarshal(item.Patch, &patch); err != nil && len(item.Patch) > 0 {
			return nil, err
		}
		all[item.UID] = append(all[item.UID], item.PatchType, patch)
	}
	return all, nil
}

// validVariables finds variables that make Cluster API refuse all of a ClusterClass.
func validVariables(_ context.Context, h *handler) outcome {
	_, response, err := read[hooksv1.DiscoverVariablesRequest, hooksv1.DiscoverVariablesResponse](h)
	seen := map[string]bool{}
	for i, variable := range response.Variables {
		switch name := variable.Name; {
		case name == "" || name == "builtin" || strings.Contains(name, "."):
			return failed("variables[%d]: %q cannot be the name of a variable", i, name)
		case seen[name]:
			return failed("variables[%d]: there is a variable %s before it", i, name)
		}
		seen[variable.Name] = true
		if err := validSchema(variable.Schema.OpenAPIV3Schema, "schema.openAPIV3Schema"); err != nil {
			return failed("variables[%d] (%s): %w", i, variable.Name, err)
		}
	}
	return outcome{err: err}
}

func validSchema(schema clusterv1.JSONSchemaProps, path string) error {
	switch schema.Type {
	case "object", "array", "string", "integer", "number", "boolean":
	default:
		if anyOf, anything := schema.XIntOrString, schema.XPreserveUnknownFields; (anyOf == nil || !*anyOf) && (anything == nil || !*anything) {
			return fmt.Errorf("%s.type is %q, want object, array, string, integer, number or boolean", path, schema.Type)
		}
	}
	for name, property := range schema.Properties {
		if err := validSchema(property, path+".properties."+name); err != nil {
			return err
		}
	}
	if schema.Items != nil {
		return validSchema(*schema.Items, path+".items")
	}
	return nil
}

// validPlan finds steps that Cluster API refuses to go.
func validPlan(_ context.Context, h *handler) outcome {
	request, response, err := read[hooksv1.GenerateUpgradePlanRequest, hooksv1.GenerateUpgradePlanResponse](h)
	if err != nil || response.Status != hooksv1.ResponseStatusSuccess {
		return outcome{err: err}
	}
	from, target := request.FromControlPlaneKubernetesVersion, request.ToKubernetesVersion
	if len(response.ControlPlaneUpgrades) == 0 && from != target {
		return warned("there are no steps: Cluster API refuses the upgrade from %s to %s", from, target)
	}
	if err := validSteps(response.ControlPlaneUpgrades, from, target, 1); err != nil {
		return failed("controlPlaneUpgrades: %w", err)
	}
	workers := response.WorkersUpgrades
	if len(workers) == 0 {
		return outcome{} // Cluster API fills them in
	}
	if request.FromWorkersKubernetesVersion == "" {
		return failed("workersUpgrades: the cluster has no workers")
	}
	for i, step := range workers {
		if step.Version != from && !slices.Contains(response.ControlPlaneUpgrades, step) {
			return failed("workersUpgrades: [%d] is %s, which the control plane never has", i, step.Version)
		}
	}
	if err := validSteps(workers, request.FromWorkersKubernetesVersion, target, 3); err != nil {
		return failed("workersUpgrades: %w", err)
	}
	return outcome{}
}

// validSteps says what is wrong with steps of so many minor versions at most.
func validSteps(steps []hooksv1.UpgradeStep, from, target string, minors uint) error {
	current, err := version.ParseSemantic(from)
	if err != nil {
		return fmt.Errorf("the request: %w", err)
	}
	if from == target && len(steps) > 0 {
		return fmt.Errorf("there are steps, and %s is the version already", target)
	}
	for i, step := range steps {
		next, err := version.ParseSemantic(step.Version)
		switch {
		case err != nil:
			return fmt.Errorf("[%d]: %w", i, err)
		case next.LessThan(current) || next.String() == current.String():
			return fmt.Errorf("[%d] is %s, which is not above v%s", i, step.Version, current)
		case next.Major() != current.Major() || next.Minor() > current.Minor()+minors:
			return fmt.Errorf("[%d] is %s: from v%s it skips a minor version", i, step.Version, current)
		}
		current = next
	}
	if last := "v" + current.String(); last != target {
		return fmt.Errorf("the steps end with %s, want %s", last, target)
	}
	return nil
}

// update is a patch by which a hook promises to update an object in place.
type update struct {
	name   string
	patch  hooksv1.Patch
	object any
	field  string
}

// updates are those of an answer of CanUpdateMachine or CanUpdateMachineSet.
func (h *handler) updates() ([]update, error) {
	const machine, template = "spec", "spec/template/spec"
	switch h.Hook.Hook {
	case "CanUpdateMachine":
		request, response, err := read[hooksv1.CanUpdateMachineRequest, hooksv1.CanUpdateMachineResponse](h)
		return []update{
			{"machinePatch", response.MachinePatch, request.Current.Machine, machine},
			{"infrastructureMachinePatch", response.InfrastructureMachinePatch, request.Current.InfrastructureMachine, machine},
			{"bootstrapConfigPatch", response.BootstrapConfigPatch, request.Current.BootstrapConfig, machine},
		}, err
	case "CanUpdateMachineSet":
		request, response, err := read[hooksv1.CanUpdateMachineSetRequest, hooksv1.CanUpdateMachineSetResponse](h)
		return []update{
			{"machineSetPatch", response.MachineSetPatch, request.Current.MachineSet, template},
			{"infrastructureMachineTemplatePatch", response.InfrastructureMachineTemplatePatch, request.Current.InfrastructureMachineTemplate, template},
			{"bootstrapConfigTemplatePatch", response.BootstrapConfigTemplatePatch, request.Current.BootstrapConfigTemplate, template},
		}, err
	}
	return nil, nil
}

// validUpdates finds promises that Cluster API cannot read or passes over.
func validUpdates(_ context.Context, h *handler) outcome {
	all, err := h.updates()
	if err != nil {
		return outcome{err: err}
	}
	for _, u := range all {
		if !u.patch.IsDefined() {
			continue
		}
		object, err := json.Marshal(u.object)
		if err != nil {
			return outcome{err: err}
		}
		item, fields := hooksv1.GeneratePatchesResponseItem{PatchType: u.patch.PatchType, Patch: u.patch.Patch}, []string{u.field}
		if err := validPatch(item, fields); err != nil {
			return failed("%s: %w", u.name, err)
		}
		if _, err := apply(item, object, fields); err != nil {
			return failed("%s: %w", u.name, err)
		}
	}
	return outcome{}
}

// renamed is the request about an object of another name; nil when it names none.
func renamed(request []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(request, &members) != nil {
		return nil
	}
	found := false
	for name, member := range members {
		var object map[string]json.RawMessage
		var metadata map[string]any
		if json.Unmarshal(member, &object) != nil || json.Unmarshal(object["metadata"], &metadata) != nil || metadata["name"] == nil {
			continue
		}
		metadata["name"] = fmt.Sprint(metadata["name"], "-2")
		var errs [2]error
		object["metadata"], errs[0] = json.Marshal(metadata)
		members[name], errs[1] = json.Marshal(object)
		found = errors.Join(errs[:]...) == nil
	}
	body, err := json.Marshal(members)
	if err != nil || !found {
		return nil
	}
	return body
}
