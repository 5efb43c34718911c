package inplace_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// template is a HostMachineTemplate whose machines have that spec.
func template(spec string) string {
	return strings.Replace(hostTemplate, `"spec":{}}}`, `"spec":`+spec+`}}`, 1)
}

// onSSD is a world whose host has the label disk=ssd.
func onSSD(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	h := w.agent.Host(t)
	h.Labels = map[string]string{"disk": "ssd"}
	if err := env.Client.Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	return w
}

const ofSSD = `{"hostSelector":{"matchLabels":{"disk":"ssd"}}}`

// A template that asks for what the hosts of all Machines have replaces none of them, with a new
// version or without; one that a host does not satisfy names the host.
func TestTemplateThatHostsSatisfy(t *testing.T) {
	for name, c := range map[string]struct {
		current, desired string
		// misfit is part of what is said of the host.
		misfit string
	}{
		"labels":           {`{}`, ofSSD, ""},
		"other labels":     {`{"hostSelector":{"matchLabels":{"rack":"a"}}}`, ofSSD, ""},
		"no labels":        {ofSSD, `{}`, ""},
		"a capacity":       {`{}`, `{"minCapacity":{"cpu":"2"}}`, ""},
		"a preference":     {`{}`, `{"preferred":[{"weight":3,"hostSelector":{"matchLabels":{"disk":"nvme"}}}]}`, ""},
		"labels of others": {`{}`, `{"hostSelector":{"matchLabels":{"disk":"nvme"}}}`, "Host host-1 of HostMachine m1 does not fit: labels do not match spec.hostSelector"},
		"too much":         {`{}`, `{"minCapacity":{"cpu":"2000"}}`, "Host host-1 of HostMachine m1 does not fit: less cpu"},
	} {
		t.Run(name, func(t *testing.T) {
			w := onSSD(t)
			current, desired := template(c.current), template(c.desired)
			for _, version := range []string{testenv.Version, newVersion} {
				r := w.canChange(infrav1.InPlaceUpdatesRequired, version, current, desired)
				if c.misfit != "" {
					if r.Status != hooksv1.ResponseStatusFailure || !strings.Contains(r.Message, c.misfit) {
						t.Errorf("the answer is %s %q, want a failure that says %q", r.Status, r.Message, c.misfit)
					}
					continue
				}
				if r.Status != hooksv1.ResponseStatusSuccess || r.InfrastructureMachineTemplatePatch.PatchType != hooksv1.JSONMergePatchType || r.MachineSetPatch.IsDefined() != (version == newVersion) {
					t.Fatalf("the answer is %+v", r)
				}
				made, err := jsonpatch.MergePatch([]byte(current), r.InfrastructureMachineTemplatePatch.Patch)
				if err != nil {
					t.Fatal(err)
				}
				var got, want any
				if json.Unmarshal(made, &got) != nil || json.Unmarshal([]byte(desired), &want) != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("the patch makes %s, want %s", made, desired)
				}
			}
		})
	}
}

// A Machine without a host claims one that fits: the others are not replaced for it. With a new
// version it is in the way, as ever.
func TestTemplateOfAMachineThatWaits(t *testing.T) {
	w := onSSD(t)
	newMachine(w, "waits", "waits")
	if r := w.canChange(infrav1.InPlaceUpdatesRequired, testenv.Version, template(`{}`), template(ofSSD)); r.Status != hooksv1.ResponseStatusSuccess || !r.InfrastructureMachineTemplatePatch.IsDefined() {
		t.Errorf("the answer is %+v", r)
	}
	if r := w.canChange(infrav1.InPlaceUpdatesRequired, newVersion, template(`{}`), template(ofSSD)); r.Status != hooksv1.ResponseStatusFailure || !strings.Contains(r.Message, "HostMachine waits has no host") {
		t.Errorf("the answer is %+v", r)
	}
}

// Nobody is away when a control plane asks for other hosts: it may have a single Machine.
func TestTemplateOfAControlPlane(t *testing.T) {
	p := newControlPlane(t, 1)
	ask := func(asked string) *hooksv1.CanUpdateMachineResponse {
		return hooktest.Call(t, p.server(), capi.CanUpdateMachine, "can-update-machine", &hooksv1.CanUpdateMachineRequest{
			Current: p.machineSide(infrav1.InPlaceUpdatesRequired, testenv.Version, "", ""), Desired: p.machineSide(infrav1.InPlaceUpdatesRequired, testenv.Version, "", asked),
		})
	}
	if r := ask(`"minCapacity":{"cpu":"1"}`); string(r.InfrastructureMachinePatch.Patch) != `{"spec":{"minCapacity":{"cpu":"1"}}}` || r.MachinePatch.IsDefined() {
		t.Errorf("the answer is %+v", r)
	}
	if r := ask(`"hostSelector":{"matchLabels":{"no":"host"}}`); r.Status != hooksv1.ResponseStatusFailure || !strings.Contains(r.Message, "Host host-1 of HostMachine m1 does not fit") {
		t.Errorf("the answer is %+v", r)
	}
}

// Cluster API writes the HostMachine itself; nothing is left to do, and nothing is written, also
// where the Machine has no version.
func TestUpdateOfWhatIsAskedEndsAtOnce(t *testing.T) {
	for _, version := range []string{testenv.Version, ""} {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t, func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Spec.Version = version })
			before := w.infra.ResourceVersion
			r := hooktest.Call(t, w.server(), capi.UpdateMachine, "update-machine", &hooksv1.UpdateMachineRequest{Desired: hooksv1.UpdateMachineRequestObjects{Machine: *w.machine}})
			if r.Status != hooksv1.ResponseStatusSuccess || r.RetryAfterSeconds != 0 {
				t.Errorf("the answer is %+v", r)
			}
			if w.get(client.ObjectKeyFromObject(w.infra), w.infra); w.infra.ResourceVersion != before {
				t.Errorf("the HostMachine was written: %+v", w.infra.Spec)
			}
		})
	}
}
