package topology

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	kjson "sigs.k8s.io/json"
)

// Template is one template of a request.
type Template struct {
	// Holder is the object that references the template, and the path of the reference.
	Holder hooksv1.HolderReference
	// Builtins are the variables that Cluster API sets: those of the Cluster, and those of the control
	// plane, MachineDeployment or MachinePool that the template is for.
	Builtins hooksv1.Builtins

	variables map[string]json.RawMessage
	gvk       schema.GroupVersionKind
}

// Variable decodes a variable of the Cluster into value, a pointer. It returns false, and leaves value as
// it is, when neither the Cluster nor the part of it that the template is for has the variable.
func (t Template) Variable(name string, value any) (bool, error) {
	raw, ok := t.variables[name]
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(raw, value); err != nil {
		return false, fmt.Errorf("variable %s: %w", name, err)
	}
	return true, nil
}

// Visitor visits the templates that it selects. Visit makes one.
type Visitor struct {
	selector clusterv1.PatchSelector
	// visit changes the document of an object, an error if it cannot.
	visit func(ctx context.Context, object []byte, t Template) ([]byte, error)
}

// Visit returns a Visitor that calls fn with each template of the selector, as a T: the type of the kind, such as
// KubeadmControlPlaneTemplate, or map[string]any. A selector without matchResources selects all templates of
// the kind. One of another version than the selector's fails the hook: it would silently get no patch. An
// error of fn fails it, too.
func Visit[T any](selector clusterv1.PatchSelector, fn func(ctx context.Context, object *T, t Template) error) Visitor {
	return Visitor{selector: selector, visit: func(ctx context.Context, raw []byte, t Template) ([]byte, error) {
		var object T
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &object); err != nil {
			return nil, err
		}
		before, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		if err := fn(ctx, &object, t); err != nil {
			return nil, err
		}
		after, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		return carryOver(raw, before, after)
	}}
}

// GeneratePatches returns a handler of the hook. The visitors see a template one after the other, each with
// the changes of those before.
func GeneratePatches(visitors ...Visitor) func(context.Context, *hooksv1.GeneratePatchesRequest) (*hooksv1.GeneratePatchesResponse, error) {
	return func(ctx context.Context, r *hooksv1.GeneratePatchesRequest) (*hooksv1.GeneratePatchesResponse, error) {
		response := &hooksv1.GeneratePatchesResponse{}
		for _, item := range r.Items {
			patch, err := walk(ctx, visitors, item.Object.Raw, item.HolderReference, r.Variables, item.Variables)
			if err != nil {
				return nil, err
			}
			if patch != nil {
				response.Items = append(response.Items, hooksv1.GeneratePatchesResponseItem{UID: item.UID, PatchType: hooksv1.JSONMergePatchType, Patch: patch})
			}
		}
		return response, nil
	}
}

// ValidateTopology returns a handler of the hook. Its error has those of all visitors, whose changes it drops.
func ValidateTopology(visitors ...Visitor) func(context.Context, *hooksv1.ValidateTopologyRequest) (*hooksv1.ValidateTopologyResponse, error) {
	return func(ctx context.Context, r *hooksv1.ValidateTopologyRequest) (*hooksv1.ValidateTopologyResponse, error) {
		var all []error
		for _, item := range r.Items {
			for _, v := range visitors {
				_, err := walk(ctx, []Visitor{v}, item.Object.Raw, item.HolderReference, r.Variables, item.Variables)
				all = append(all, err)
			}
		}
		return nil, errors.Join(all...)
	}
}

// walk returns the patch that the visitors make of a template, nil for none.
func walk(ctx context.Context, visitors []Visitor, raw []byte, h hooksv1.HolderReference, variables ...[]hooksv1.Variable) ([]byte, error) {
	t, err := newTemplate(raw, h, variables)
	changed := raw
	for _, v := range visitors {
		var selected bool
		if err == nil {
			selected, err = v.selects(t)
		}
		if err == nil && selected {
			changed, err = v.visit(ctx, changed, t)
		}
	}
	var patch []byte
	if err == nil {
		patch, err = difference(raw, changed, h.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("%s of %s %s/%s: %w", t.gvk.Kind, h.Kind, h.Namespace, h.Name, err)
	}
	return patch, nil
}

// newTemplate reads the kind and the variables, of which later ones win. Of the builtin variable each field does.
func newTemplate(raw []byte, h hooksv1.HolderReference, variables [][]hooksv1.Variable) (Template, error) {
	t := Template{Holder: h, variables: map[string]json.RawMessage{}}
	for _, list := range variables {
		for _, v := range list {
			t.variables[v.Name] = v.Value.Raw
			if v.Name == hooksv1.BuiltinsName {
				if err := json.Unmarshal(v.Value.Raw, &t.Builtins); err != nil {
					return t, fmt.Errorf("variable %s: %w", v.Name, err)
				}
			}
		}
	}
	var kind struct{ APIVersion, Kind string }
	if err := json.Unmarshal(raw, &kind); err != nil {
		return t, err
	}
	t.gvk = schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	return t, nil
}

// selects says whether the selector matches, as that of an inline patch would.
func (v Visitor) selects(t Template) (bool, error) {
	want := schema.FromAPIVersionAndKind(v.selector.APIVersion, v.selector.Kind)
	if want.GroupKind() != t.gvk.GroupKind() || !matches(v.selector.MatchResources, t) {
		return false, nil
	}
	if want.Version != t.gvk.Version {
		return false, fmt.Errorf("apiVersion is %s, and the extension knows only %s", t.gvk.GroupVersion(), v.selector.APIVersion)
	}
	return true, nil
}

func matches(m clusterv1.PatchSelectorMatch, t Template) bool {
	path := t.Holder.FieldPath
	ofWorkers := path == "spec.template.spec.bootstrap.configRef" || path == "spec.template.spec.infrastructureRef"
	switch {
	case m == clusterv1.PatchSelectorMatch{}:
		return true
	case t.Holder.Kind == "Cluster" && path == "spec.infrastructureRef":
		return m.InfrastructureCluster != nil && *m.InfrastructureCluster
	case t.Holder.Kind == "Cluster" && path == "spec.controlPlaneRef", path == "spec.machineTemplate.infrastructureRef", path == "spec.machineTemplate.spec.infrastructureRef":
		return m.ControlPlane != nil && *m.ControlPlane
	case t.Holder.Kind == "MachineDeployment" && ofWorkers && m.MachineDeploymentClass != nil && t.Builtins.MachineDeployment != nil:
		return hasClass(m.MachineDeploymentClass.Names, t.Builtins.MachineDeployment.Class)
	case t.Holder.Kind == "MachinePool" && ofWorkers && m.MachinePoolClass != nil && t.Builtins.MachinePool != nil:
		return hasClass(m.MachinePoolClass.Names, t.Builtins.MachinePool.Class)
	}
	return false
}

// hasClass understands names with * at one end, as in prod-*.
func hasClass(names []string, class string) bool {
	for _, name := range names {
		suffix, atStart := strings.CutPrefix(name, "*")
		prefix, atEnd := strings.CutSuffix(name, "*")
		if name == class || atStart && strings.HasSuffix(class, suffix) || atEnd && strings.HasPrefix(class, prefix) {
			return true
		}
	}
	return false
}
