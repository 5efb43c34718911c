package inplace

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

func merge(patch string) hooksv1.Patch {
	return hooksv1.Patch{PatchType: hooksv1.JSONMergePatchType, Patch: []byte(patch)}
}

func operations(patch string) hooksv1.Patch {
	return hooksv1.Patch{PatchType: hooksv1.JSONPatchType, Patch: []byte(patch)}
}

// promising is an updater that answers with one response, and is done at once.
func promising(name string, response *hooksv1.CanUpdateMachineResponse, err error) Updater {
	return Updater{
		Name: name,
		CanUpdateMachine: func(context.Context, *hooksv1.CanUpdateMachineRequest) (*hooksv1.CanUpdateMachineResponse, error) {
			return response.DeepCopy(), err
		},
		UpdateMachine: func(context.Context, *hooksv1.UpdateMachineRequest) (*hooksv1.UpdateMachineResponse, error) {
			return nil, nil
		},
	}
}

const infrastructure = `{"spec":{"kernel":"6.1","labels":{"rack":"a"}}}`

func request() *hooksv1.CanUpdateMachineRequest {
	objects := hooksv1.CanUpdateMachineRequestObjects{
		Machine:               clusterv1.Machine{Spec: clusterv1.MachineSpec{ClusterName: "c", Version: "v1.35.4"}},
		InfrastructureMachine: runtime.RawExtension{Raw: []byte(infrastructure)},
		BootstrapConfig:       runtime.RawExtension{Raw: []byte(`{"spec":{"files":["a"],"ntp":{"servers":["x"]}}}`)},
	}
	return &hooksv1.CanUpdateMachineRequest{Current: objects, Desired: *objects.DeepCopy()}
}

// Each updater sees the machine as those before it will leave it, in either type of patch,
// and the answer is what all of them do to the machine as it is.
func TestUpdatersPatchOneAfterTheOther(t *testing.T) {
	kernel := promising("kernel", &hooksv1.CanUpdateMachineResponse{
		InfrastructureMachinePatch: operations(`[{"op":"replace","path":"/spec/kernel","value":"6.12"},{"op":"remove","path":"/spec/labels/rack"}]`),
		BootstrapConfigPatch:       merge(`{"spec":{"ntp":null}}`),
	}, nil)
	nothing := promising("nothing", nil, nil)
	version := promising("version", nil, nil)
	version.CanUpdateMachine = func(_ context.Context, r *hooksv1.CanUpdateMachineRequest) (*hooksv1.CanUpdateMachineResponse, error) {
		if got := string(r.Current.InfrastructureMachine.Raw); !strings.Contains(got, `"kernel":"6.12"`) {
			t.Errorf("the second updater sees %s", got)
		}
		if got := string(r.Current.BootstrapConfig.Raw); strings.Contains(got, "ntp") {
			t.Errorf("the second updater sees %s", got)
		}
		if r.Desired.Machine.Spec.ClusterName != "c" {
			t.Errorf("the first updater has changed the request of the second: %+v", r.Desired.Machine.Spec)
		}
		return &hooksv1.CanUpdateMachineResponse{
			MachinePatch:               merge(`{"spec":{"version":"v1.36.3"}}`),
			InfrastructureMachinePatch: operations(`[{"op":"test","path":"/spec/kernel","value":"6.12"},{"op":"add","path":"/spec/labels/row","value":"7"}]`),
		}, nil
	}
	spoiling := promising("spoiling", nil, nil)
	spoiling.CanUpdateMachine = func(_ context.Context, r *hooksv1.CanUpdateMachineRequest) (*hooksv1.CanUpdateMachineResponse, error) {
		r.Desired.Machine.Spec.ClusterName, r.Current.Machine.Spec.ClusterName = "other", "other"
		copy(r.Current.InfrastructureMachine.Raw, "spoiled")
		return nil, nil
	}
	r := request()
	got, err := Chain{spoiling, kernel, nothing, version}.CanUpdateMachine(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for what, tc := range map[string]struct {
		current string
		patch   hooksv1.Patch
		want    string
	}{
		"machine":        {`{"spec":{"version":"v1.35.4"}}`, got.MachinePatch, `{"spec":{"version":"v1.36.3"}}`},
		"infrastructure": {infrastructure, got.InfrastructureMachinePatch, `{"spec":{"kernel":"6.12","labels":{"row":"7"}}}`},
		"bootstrap":      {string(r.Current.BootstrapConfig.Raw), got.BootstrapConfigPatch, `{"spec":{"files":["a"]}}`},
	} {
		made, err := jsonpatch.MergePatch([]byte(tc.current), tc.patch.Patch)
		if err != nil || tc.patch.PatchType != hooksv1.JSONMergePatchType || !jsonpatch.Equal(made, []byte(tc.want)) {
			t.Errorf("%s: %s %s makes %s of it (%v), want %s", what, tc.patch.PatchType, tc.patch.Patch, made, err, tc.want)
		}
	}
	if none, err := (Chain{nothing}).CanUpdateMachine(t.Context(), r); err != nil || none.MachinePatch.IsDefined() || none.InfrastructureMachinePatch.IsDefined() || none.BootstrapConfigPatch.IsDefined() {
		t.Errorf("updaters that change nothing answer %+v (%v)", none, err)
	}
}

// Whatever is wrong with one updater's answer, nothing is promised, and who is to blame is told.
func TestNothingIsPromisedWhenOneUpdaterFails(t *testing.T) {
	failed := &hooksv1.CanUpdateMachineResponse{MachinePatch: merge(`{"spec":{"version":"v1.36.3"}}`)}
	failed.Status, failed.Message = hooksv1.ResponseStatusFailure, "not on Sundays"
	for name, tc := range map[string]struct {
		response *hooksv1.CanUpdateMachineResponse
		err      error
		want     string
	}{
		"an error":           {err: errors.New("out of order"), want: "updater bad: out of order"},
		"a Failure":          {response: failed, want: "updater bad: not on Sundays"},
		"no type":            {response: &hooksv1.CanUpdateMachineResponse{MachinePatch: hooksv1.Patch{Patch: []byte(`{}`)}}, want: `updater bad: machinePatch: patchType "" is neither`},
		"no patch":           {response: &hooksv1.CanUpdateMachineResponse{MachinePatch: merge(`[`)}, want: "updater bad: machinePatch: "},
		"no operations":      {response: &hooksv1.CanUpdateMachineResponse{BootstrapConfigPatch: operations(`{}`)}, want: "updater bad: bootstrapConfigPatch: is no JSON patch"},
		"a test that fails":  {response: &hooksv1.CanUpdateMachineResponse{InfrastructureMachinePatch: operations(`[{"op":"test","path":"/spec/kernel","value":"5"}]`)}, want: "updater bad: infrastructureMachinePatch: "},
		"a field of no type": {response: &hooksv1.CanUpdateMachineResponse{MachinePatch: merge(`{"spec":{"zone":"v1"}}`)}, want: `updater bad: machinePatch makes no valid object: json: unknown field "zone"`},
		"a value of no type": {response: &hooksv1.CanUpdateMachineResponse{MachinePatch: merge(`{"spec":{"version":7}}`)}, want: "updater bad: machinePatch makes no valid object"},
	} {
		t.Run(name, func(t *testing.T) {
			good := promising("good", &hooksv1.CanUpdateMachineResponse{MachinePatch: merge(`{"spec":{"version":"v1.36.0"}}`)}, nil)
			server := serverOf(t, Chain{good, promising("bad", tc.response, tc.err)})
			got := hooktest.Call(t, server, capi.CanUpdateMachine, "x-can-update-machine", request())
			if got.Status != hooksv1.ResponseStatusFailure || !strings.Contains(got.Message, tc.want) || got.MachinePatch.IsDefined() {
				t.Errorf("answered %+v, want a Failure with %q", got, tc.want)
			}
		})
	}
	r := request()
	r.Current.BootstrapConfig, r.Desired.BootstrapConfig = runtime.RawExtension{}, runtime.RawExtension{}
	if _, err := (Chain{promising("bad", &hooksv1.CanUpdateMachineResponse{BootstrapConfigPatch: merge(`{}`)}, nil)}).CanUpdateMachine(t.Context(), r); err == nil || !strings.Contains(err.Error(), "an object that the machine does not have") {
		t.Errorf("a patch of nothing: %v", err)
	}
	if _, err := (Chain{promising("good", nil, nil)}).CanUpdateMachine(t.Context(), r); err != nil {
		t.Errorf("a machine without a bootstrap config: %v", err)
	}
}

// Updates are made in order too: one that is not done, or fails, holds up those after it,
// and what was done is asked for again by the next call.
func TestUpdatesAreMadeInOrder(t *testing.T) {
	var calls []string
	answers := map[string]func() (*hooksv1.UpdateMachineResponse, error){}
	updater := func(name string) Updater {
		u := promising(name, nil, nil)
		u.UpdateMachine = func(_ context.Context, r *hooksv1.UpdateMachineRequest) (*hooksv1.UpdateMachineResponse, error) {
			calls = append(calls, name+" "+r.Desired.Machine.Spec.Version)
			r.Desired.Machine.Spec.Version = "spoiled"
			if answer := answers[name]; answer != nil {
				return answer()
			}
			return nil, nil
		}
		return u
	}
	server := serverOf(t, Chain{updater("a"), updater("b"), updater("c")})
	again := &hooksv1.UpdateMachineResponse{}
	again.RetryAfterSeconds, again.Message = 7, "b draws breath"
	failed := &hooksv1.UpdateMachineResponse{}
	failed.Status, failed.Message = hooksv1.ResponseStatusFailure, "b is broken"
	for name, tc := range map[string]struct {
		b       func() (*hooksv1.UpdateMachineResponse, error)
		calls   string
		status  hooksv1.ResponseStatus
		message string
		retry   int32
	}{
		"all are done": {calls: "a v1,b v1,c v1", status: hooksv1.ResponseStatusSuccess},
		"one is not":   {b: func() (*hooksv1.UpdateMachineResponse, error) { return again.DeepCopy(), nil }, calls: "a v1,b v1", status: hooksv1.ResponseStatusSuccess, message: "b draws breath", retry: 7},
		"one asks for time": {b: func() (*hooksv1.UpdateMachineResponse, error) {
			return nil, extension.RetryAfter(9*time.Second, "b waits")
		}, calls: "a v1,b v1", status: hooksv1.ResponseStatusSuccess, message: "b waits", retry: 9},
		"one fails":        {b: func() (*hooksv1.UpdateMachineResponse, error) { return failed.DeepCopy(), nil }, calls: "a v1,b v1", status: hooksv1.ResponseStatusFailure, message: "updater b: b is broken"},
		"one has an error": {b: func() (*hooksv1.UpdateMachineResponse, error) { return nil, errors.New("no route") }, calls: "a v1,b v1", status: hooksv1.ResponseStatusFailure, message: "updater b: no route"},
	} {
		calls, answers["b"] = nil, tc.b
		r := &hooksv1.UpdateMachineRequest{}
		r.Desired.Machine.Spec.Version = "v1"
		r.Desired.InfrastructureMachine.Raw = []byte(infrastructure)
		got := hooktest.Call(t, server, capi.UpdateMachine, "x-update-machine", r)
		if strings.Join(calls, ",") != tc.calls || got.Status != tc.status || got.Message != tc.message || got.RetryAfterSeconds != tc.retry {
			t.Errorf("%s: called %v, answered %+v", name, calls, got)
		}
	}
}

// Templates of a MachineSet are changed alike; an updater that is not for them is left out.
func TestTemplatesAreChangedAlike(t *testing.T) {
	raw := func(s string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(s)} }
	r := &hooksv1.CanUpdateMachineSetRequest{}
	r.Current.MachineSet.Spec.Template.Spec.Version = "v1"
	r.Current.InfrastructureMachineTemplate, r.Current.BootstrapConfigTemplate = raw(infrastructure), raw(`{"spec":{}}`)
	r.Current.DeepCopyInto(&r.Desired)
	first, second := promising("first", nil, nil), promising("second", nil, nil)
	first.CanUpdateMachineSet = func(context.Context, *hooksv1.CanUpdateMachineSetRequest) (*hooksv1.CanUpdateMachineSetResponse, error) {
		return &hooksv1.CanUpdateMachineSetResponse{
			MachineSetPatch:                    merge(`{"spec":{"template":{"spec":{"version":"v2"}}}}`),
			InfrastructureMachineTemplatePatch: merge(`{"spec":{"kernel":"6.12"}}`),
			BootstrapConfigTemplatePatch:       operations(`[{"op":"add","path":"/spec/a","value":1}]`),
		}, nil
	}
	second.CanUpdateMachineSet = func(_ context.Context, r *hooksv1.CanUpdateMachineSetRequest) (*hooksv1.CanUpdateMachineSetResponse, error) {
		if got := r.Current.MachineSet.Spec.Template.Spec.Version; got != "v2" {
			return nil, errors.New("sees " + got)
		}
		return &hooksv1.CanUpdateMachineSetResponse{MachineSetPatch: merge(`{"spec":{"template":{"spec":{"version":"v3"}}}}`)}, nil
	}
	got := hooktest.Call(t, serverOf(t, Chain{first, promising("machines only", nil, nil), second}), capi.CanUpdateMachineSet, "x-can-update-machine-set", r)
	if got.Status != hooksv1.ResponseStatusSuccess || string(got.MachineSetPatch.Patch) != `{"spec":{"template":{"spec":{"version":"v3"}}}}` ||
		string(got.InfrastructureMachineTemplatePatch.Patch) != `{"spec":{"kernel":"6.12"}}` || string(got.BootstrapConfigTemplatePatch.Patch) != `{"spec":{"a":1}}` {
		t.Errorf("answered %+v", got)
	}
	second.CanUpdateMachineSet = func(context.Context, *hooksv1.CanUpdateMachineSetRequest) (*hooksv1.CanUpdateMachineSetResponse, error) {
		return nil, errors.New("no")
	}
	if got, err := (Chain{first, second}).CanUpdateMachineSet(t.Context(), r); err == nil || got != nil || err.Error() != "updater second: no" {
		t.Errorf("answered %+v (%v)", got, err)
	}
}

func TestHandleNamesWhatAnUpdaterLacks(t *testing.T) {
	whole := promising("a", nil, nil)
	for want, chain := range map[string]Chain{
		"the chain has no updater":            {},
		"updater 1 has no Name":               {whole, promising("", nil, nil)},
		`two updaters have the name "a"`:      {whole, whole},
		`updater "b" has no CanUpdateMachine`: {whole, {Name: "b", UpdateMachine: whole.UpdateMachine}},
		`updater "b" has no UpdateMachine`:    {whole, {Name: "b", CanUpdateMachine: whole.CanUpdateMachine}},
	} {
		server, err := extension.New(extension.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := Handle(server, "x", chain); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// No request makes a chain panic or answer what the catalog does not accept.
func FuzzChain(f *testing.F) {
	u := promising("a", &hooksv1.CanUpdateMachineResponse{
		MachinePatch:               merge(`{"spec":{"version":"v1.36.3"}}`),
		InfrastructureMachinePatch: operations(`[{"op":"add","path":"/spec/zone","value":"b"}]`),
	}, nil)
	hooktest.Fuzz(f, serverOf(f, Chain{u, u2(u)}), capi.CanUpdateMachine, "x-can-update-machine")
}

// u2 is another updater of the same kind.
func u2(u Updater) Updater { u.Name = "b"; return u }

func serverOf(t testing.TB, chain Chain) *extension.Server {
	t.Helper()
	server, err := extension.New(extension.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Handle(server, "x", chain); err != nil {
		t.Fatal(err)
	}
	return server
}
