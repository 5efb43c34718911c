package topology_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/topology"
)

type (
	config  = bootstrapv1.KubeadmConfigTemplate
	request = hooksv1.GeneratePatchesRequest
)

var ofWorkers = clusterv1.PatchSelector{APIVersion: bootstrapv1.GroupVersion.String(), Kind: "KubeadmConfigTemplate"}

// stored is a template with fields that the Go type does not know, and without some that it would write.
const stored = `{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2","kind":"KubeadmConfigTemplate","metadata":{"name":"w","future":9007199254740993},
	"spec":{"template":{"spec":{"future":{"a":1.50},"files":[{"path":"/a","content":"a","future":1},{"path":"/b","content":"b","future":2}],"preKubeadmCommands":["a","b"]}}}}`

func requestOf(object string, variables ...hooksv1.Variable) *request {
	return &request{Variables: variables, Items: []hooksv1.GeneratePatchesRequestItem{{
		UID: "1", Object: runtime.RawExtension{Raw: []byte(object)},
		HolderReference: hooksv1.HolderReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Namespace: "prod", Name: "md", FieldPath: "spec.template.spec.bootstrap.configRef"},
	}}}
}

func variable(name, value string) hooksv1.Variable {
	return hooksv1.Variable{Name: name, Value: apiextensionsv1.JSON{Raw: []byte(value)}}
}

// TestOnlyChangesArePatched holds that a patch has what a visitor changed and nothing that the Go type loses or adds.
func TestOnlyChangesArePatched(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*config)
		want   string
	}{
		"nothing":  {func(*config) {}, ``},
		"a scalar": {func(c *config) { c.Spec.Template.Spec.Format = bootstrapv1.CloudConfig }, `{"spec":{"template":{"spec":{"format":"cloud-config"}}}}`},
		"an element": {func(c *config) { c.Spec.Template.Spec.Files[1].Content = "B" },
			`{"spec":{"template":{"spec":{"files":[{"content":"a","future":1,"path":"/a"},{"content":"B","future":2,"path":"/b"}]}}}}`},
		"one more": {func(c *config) {
			c.Spec.Template.Spec.Files = append([]bootstrapv1.File{{Path: "/0", Content: "0"}}, c.Spec.Template.Spec.Files...)
		}, `{"spec":{"template":{"spec":{"files":[{"content":"0","path":"/0"},{"content":"a","future":1,"path":"/a"},{"content":"b","future":2,"path":"/b"}]}}}}`},
		"one less":    {func(c *config) { c.Spec.Template.Spec.Files = c.Spec.Template.Spec.Files[1:] }, `{"spec":{"template":{"spec":{"files":[{"content":"b","future":2,"path":"/b"}]}}}}`},
		"a member":    {func(c *config) { c.Spec.Template.Spec.PreKubeadmCommands = nil }, `{"spec":{"template":{"spec":{"preKubeadmCommands":null}}}}`},
		"labels":      {func(c *config) { c.Labels = map[string]string{"a": "b"} }, `{"metadata":{"labels":{"a":"b"}}}`},
		"annotations": {func(c *config) { c.Annotations = map[string]string{"a": "b"} }, `{"metadata":{"annotations":{"a":"b"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			handler := topology.GeneratePatches(topology.Visit(ofWorkers, func(_ context.Context, c *config, _ topology.Template) error { tt.change(c); return nil }))
			response, err := handler(t.Context(), requestOf(stored))
			if err != nil {
				t.Fatal(err)
			}
			var got string
			for _, item := range response.Items {
				got += string(item.Patch)
				if item.UID != "1" || item.PatchType != hooksv1.JSONMergePatchType {
					t.Errorf("got %+v", item)
				}
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestVisitorsFollowEachOther holds that a visitor sees what the one before it changed, and that the patch has both.
func TestVisitorsFollowEachOther(t *testing.T) {
	add := func(command string) topology.Visitor {
		return topology.Visit(ofWorkers, func(_ context.Context, c *config, _ topology.Template) error {
			c.Spec.Template.Spec.PreKubeadmCommands = append(c.Spec.Template.Spec.PreKubeadmCommands, command)
			return nil
		})
	}
	response, err := topology.GeneratePatches(add("c"), add("d"))(t.Context(), requestOf(stored))
	if err != nil || len(response.Items) != 1 || !strings.Contains(string(response.Items[0].Patch), `["a","b","c","d"]`) {
		t.Errorf("got %+v, %v", response, err)
	}
}

// TestVariables holds that variables of the template win over those of the Cluster, and builtin ones field by field.
func TestVariables(t *testing.T) {
	r := requestOf(stored, variable("size", `1`), variable("rack", `"a"`), variable("builtin", `{"cluster":{"name":"web"}}`))
	r.Items[0].Variables = []hooksv1.Variable{variable("size", `2`), variable("builtin", `{"machineDeployment":{"class":"small"}}`)}
	visited := false
	handler := topology.GeneratePatches(topology.Visit(ofWorkers, func(_ context.Context, _ *config, tpl topology.Template) error {
		visited = true
		size, rack, absent := 0, "", "kept"
		for name, value := range map[string]any{"size": &size, "rack": &rack, "absent": &absent} {
			if ok, err := tpl.Variable(name, value); err != nil || ok != (name != "absent") {
				t.Errorf("%s: %t, %v", name, ok, err)
			}
		}
		if size != 2 || rack != "a" || absent != "kept" || tpl.Builtins.Cluster.Name != "web" || tpl.Builtins.MachineDeployment.Class != "small" || tpl.Holder.Name != "md" {
			t.Errorf("got %d, %q, %q, %+v of %+v", size, rack, absent, tpl.Builtins, tpl.Holder)
		}
		_, err := tpl.Variable("rack", &size)
		return err
	}))
	if _, err := handler(t.Context(), r); !visited || err == nil || !strings.HasPrefix(err.Error(), "KubeadmConfigTemplate of MachineDeployment prod/md: variable rack: ") {
		t.Errorf("got %v", err)
	}
}

// TestWhatCannotBePatched lists changes that Cluster API would silently skip.
func TestWhatCannotBePatched(t *testing.T) {
	changes := func(change func(*config)) topology.Visitor {
		return topology.Visit(ofWorkers, func(_ context.Context, c *config, _ topology.Template) error { change(c); return nil })
	}
	label := func(c *config) { c.Labels = map[string]string{"a": "b"} }
	for holder, want := range map[string]string{"MachineDeployment": "", "KubeadmControlPlane": "", "Cluster": "changes metadata: ", "MachinePool": "changes metadata: "} {
		r := requestOf(stored)
		r.Items[0].HolderReference.Kind = holder
		if _, err := topology.GeneratePatches(changes(label))(t.Context(), r); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("labels of a template of a %s: %v", holder, err)
		}
	}
	rename := changes(func(c *config) { c.Name = "other" })
	for want, object := range map[string]string{
		"changes metadata.name: Cluster API applies only":                                                                   stored,
		"apiVersion is bootstrap.cluster.x-k8s.io/v1beta1, and the extension knows only bootstrap.cluster.x-k8s.io/v1beta2": strings.Replace(stored, "v1beta2", "v1beta1", 1),
		"cannot unmarshal": strings.Replace(stored, `"/a"`, `1`, 1),
		"unexpected end":   "{",
	} {
		if _, err := topology.GeneratePatches(rename)(t.Context(), requestOf(object)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	elsewhere := topology.Visit(ofWorkers, func(_ context.Context, o *map[string]any, _ topology.Template) error {
		(*o)["spec"].(map[string]any)["more"] = true
		return nil
	})
	if _, err := topology.GeneratePatches(elsewhere)(t.Context(), requestOf(stored)); err == nil || !strings.Contains(err.Error(), "changes spec.more: ") {
		t.Errorf("a field beside spec.template: %v", err)
	}
	other := `{"apiVersion":"infrastructure.slipway.dev/v1beta2","kind":"HostMachineTemplate"}`
	if response, err := topology.GeneratePatches(rename)(t.Context(), requestOf(other)); err != nil || len(response.Items) != 0 {
		t.Errorf("a template of another kind: %+v, %v", response, err)
	}
}

// TestValidateTopology holds that the author of a Cluster sees all that is wrong.
func TestValidateTopology(t *testing.T) {
	r := &hooksv1.ValidateTopologyRequest{}
	for range 2 {
		item := requestOf(stored).Items[0]
		r.Items = append(r.Items, &hooksv1.ValidateTopologyRequestItem{HolderReference: item.HolderReference, Object: item.Object})
	}
	refuse := func(why string) topology.Visitor {
		return topology.Visit(ofWorkers, func(context.Context, *config, topology.Template) error {
			if why == "" {
				return nil
			}
			return errors.New(why)
		})
	}
	if _, err := topology.ValidateTopology(refuse("a"), refuse(""), refuse("b"))(t.Context(), r); err == nil || strings.Count(err.Error(), "prod/md: ") != 4 {
		t.Errorf("got %v", err)
	}
	if _, err := topology.ValidateTopology(refuse(""))(t.Context(), r); err != nil {
		t.Error(err)
	}
}

// FuzzPatch applies patches as Cluster API does: the template becomes what the visitor made of it.
func FuzzPatch(f *testing.F) {
	for _, seed := range [][2]string{
		{`{}`, `{"a":{}}`}, {`{"a":{"b":1}}`, `{"a":{}}`}, {`{"a":1}`, `{"a":{"b":{"c":[]}}}`}, {`{"a":[1,{"b":null}]}`, `{"a":[{"b":2},1]}`}, {`{"a":null,"b":1}`, `{"b":null}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, from, to string) {
		var want map[string]any
		if json.Unmarshal([]byte(from), &want) != nil || json.Unmarshal([]byte(to), &want) != nil {
			t.Skip()
		}
		want = nil
		if err := json.Unmarshal([]byte(to), &want); err != nil || want == nil {
			t.Skip()
		}
		const kind = `{"apiVersion":"example.com/v1","kind":"T","spec":{"template":{"spec":`
		r := requestOf(kind + from + "}}}")
		response, err := topology.GeneratePatches(topology.Visit(clusterv1.PatchSelector{APIVersion: "example.com/v1", Kind: "T"},
			func(_ context.Context, object *map[string]any, _ topology.Template) error {
				(*object)["spec"] = want
				return nil
			}))(t.Context(), r)
		if err != nil {
			t.Skip(err)
		}
		got := r.Items[0].Object.Raw
		for _, item := range response.Items {
			if got, err = jsonpatch.MergePatch(got, item.Patch); err != nil {
				t.Fatalf("%s: %v", item.Patch, err)
			}
		}
		var patched struct {
			Spec struct{ Template struct{ Spec map[string]any } }
		}
		if err := json.Unmarshal(got, &patched); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(withoutNull(patched.Spec.Template.Spec), withoutNull(want)) {
			t.Errorf("%s becomes %s, want %s", from, got, to)
		}
	})
}

// withoutNull removes members that are null, which is the same to Kubernetes.
func withoutNull(value any) any {
	switch v := value.(type) {
	case map[string]any:
		clean := map[string]any{}
		for name, member := range v {
			if member != nil {
				clean[name] = withoutNull(member)
			}
		}
		return clean
	case []any:
		clean := make([]any, len(v))
		for i := range v {
			clean[i] = withoutNull(v[i])
		}
		return clean
	}
	return value
}
