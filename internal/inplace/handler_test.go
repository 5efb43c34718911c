package inplace_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

const kubeadmTemplate = `{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2","kind":"KubeadmConfigTemplate","spec":{"template":{"spec":{}}}}`

const hostTemplate = `{"apiVersion":"infrastructure.slipway.dev/v1beta2","kind":"HostMachineTemplate","spec":{"template":{"spec":{}}}}`

// An update is requested once, whoever is asked, and done when the host says so of that very
// operation: not before, and not by what a status says.
func TestUpdateEndsWithTheHost(t *testing.T) {
	w := newWorld(t)
	waits := func(what, message string) {
		t.Helper()
		if r := w.update(); r.Status != hooksv1.ResponseStatusSuccess || r.RetryAfterSeconds == 0 || !strings.Contains(r.Message, message) {
			t.Fatalf("%s: the answer is %+v, want it to wait and say %q", what, r, message)
		}
	}
	waits("first call", "Host host-1 is to be upgraded to "+newVersion)
	w.get(client.ObjectKeyFromObject(w.infra), w.infra)
	if w.infra.Spec.Version != newVersion {
		t.Fatalf("spec.version is %q", w.infra.Spec.Version)
	}
	before := w.infra.ResourceVersion
	waits("second replica", "is to be upgraded")
	if w.get(client.ObjectKeyFromObject(w.infra), w.infra); w.infra.ResourceVersion != before {
		t.Error("the operation was written again")
	}

	status := w.infra.DeepCopy()
	status.Status.Version = newVersion
	if err := env.Client.Status().Patch(t.Context(), status, client.MergeFrom(w.infra)); err != nil {
		t.Fatal(err)
	}
	waits("a status that is ahead", "is to be upgraded")

	w.requestUpgrade()
	waits("requested", "The agent has not started the upgrade")
	w.agent.FailNext = "no space left"
	w.agent.Obey(t, time.Now())
	waits("failed", "no space left. Mend the host and reboot it")
	w.agent.Report(t, func(s *infrav1.HostStatus) { s.ObservedOperation = nil })
	waits("the report is lost, as in a move", "The agent has not started")
	w.agent.Obey(t, time.Now())
	for range 2 {
		if r := w.update(); r.Status != hooksv1.ResponseStatusSuccess || r.RetryAfterSeconds != 0 {
			t.Fatalf("the host runs %s, and the answer is %+v", newVersion, r)
		}
	}
}

// A host that does not offer the version any more is waited for, with what to do.
func TestUpdateWaitsForTheVersion(t *testing.T) {
	w := newWorld(t)
	w.agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory.KubernetesVersions = []string{testenv.Version} })
	if r := w.update(); r.RetryAfterSeconds == 0 || !strings.Contains(r.Message, "Host host-1 does not offer Kubernetes "+newVersion+". Install it") {
		t.Errorf("the answer is %+v", r)
	}
}

// Whoever reaches the port requests nothing that Cluster API did not.
func TestUpdateMustBeDue(t *testing.T) {
	for name, c := range map[string]struct {
		mutate func(*clusterv1.Machine, *infrav1.HostMachine)
		says   string
	}{
		"not in progress": {func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
			delete(m.Annotations, clusterv1.UpdateInProgressAnnotation)
		}, "is not being updated in place"},
		"not pending": {func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
			m.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
		}, "is not being updated in place"},
		"another version":  {func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Spec.Version = testenv.Version }, "its own is"},
		"another provider": {func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Spec.InfrastructureRef.Kind = "DockerMachine" }, "which this provider does not manage"},
		"no HostMachine":   {func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Spec.InfrastructureRef.Name = "gone" }, "HostMachine gone is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.mutate)
			r := w.update()
			if r.Status != hooksv1.ResponseStatusFailure || !strings.Contains(r.Message, c.says) {
				t.Errorf("the answer is %+v, want a failure that says %q", r, c.says)
			}
			if w.get(client.ObjectKeyFromObject(w.infra), w.infra); w.infra.Spec.Version != "" {
				t.Error("the host was asked to upgrade")
			}
		})
	}
	t.Run("HostMachine of another Machine", func(t *testing.T) {
		w := newWorld(t)
		other := newMachine(w, "m2", "m1")
		w.machine = other
		if r := w.update(); r.Status != hooksv1.ResponseStatusFailure || !strings.Contains(r.Message, "of another Machine than m2") {
			t.Errorf("the answer is %+v", r)
		}
	})
}

// Nothing is begun on a host whose Machine leaves, whatever of its chain is being deleted; the
// update waits. One that has begun ends.
func TestUpdateOfALeavingMachineWaits(t *testing.T) {
	for _, begun := range []bool{false, true} {
		t.Run(fmt.Sprintf("begun %t", begun), func(t *testing.T) {
			w := newWorld(t)
			if begun {
				w.update()
			}
			testenv.DeleteHeldUp(t, env.Client, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.machine.Namespace, Name: testenv.ClusterName}})
			r := w.update()
			w.get(client.ObjectKeyFromObject(w.infra), w.infra)
			if held := strings.Contains(r.Message, "is not updated: Cluster c1 is being deleted"); r.Status != hooksv1.ResponseStatusSuccess || r.RetryAfterSeconds == 0 || held == begun {
				t.Errorf("the answer is %+v", r)
			}
			if (w.infra.Spec.Version == newVersion) != begun {
				t.Errorf("spec.version is %q", w.infra.Spec.Version)
			}
		})
	}
}

// newMachine makes another Machine that says a HostMachine is its own.
func newMachine(w *world, name, infrastructure string) *clusterv1.Machine {
	w.t.Helper()
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.machine.Namespace, Name: name, Labels: w.machine.Labels, Annotations: w.machine.Annotations},
		Spec:       *w.machine.Spec.DeepCopy(),
	}
	m.Spec.InfrastructureRef.Name = infrastructure
	if err := env.Client.Create(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// canUpdate asks for a MachineSet that selects the Machine.
func (w *world) canUpdate(policy string) *hooksv1.CanUpdateMachineSetResponse {
	w.t.Helper()
	return w.canChange(policy, newVersion, hostTemplate, hostTemplate)
}

// canChange asks for a change to a version and of the HostMachineTemplate.
func (w *world) canChange(policy, version, current, desired string) *hooksv1.CanUpdateMachineSetResponse {
	w.t.Helper()
	side := func(version, template string) hooksv1.CanUpdateMachineSetRequestObjects {
		return hooksv1.CanUpdateMachineSetRequestObjects{
			MachineSet: clusterv1.MachineSet{
				TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet"},
				ObjectMeta: metav1.ObjectMeta{Namespace: w.machine.Namespace, Name: "workers"},
				Spec: clusterv1.MachineSetSpec{
					ClusterName: testenv.ClusterName, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"set": "workers"}},
					Template: clusterv1.MachineTemplateSpec{
						ObjectMeta: clusterv1.ObjectMeta{Annotations: map[string]string{infrav1.InPlaceUpdatesAnnotation: policy}},
						Spec:       clusterv1.MachineSpec{Version: version},
					},
				},
			},
			InfrastructureMachineTemplate: raw(template), BootstrapConfigTemplate: raw(kubeadmTemplate),
		}
	}
	return hooktest.Call(w.t, w.server(), capi.CanUpdateMachineSet, "can-update-machine-set",
		&hooksv1.CanUpdateMachineSetRequest{Current: side(testenv.Version, current), Desired: side(version, desired)})
}

// Machines are updated in place if the hosts of all of them can be; else they are replaced,
// or must not be.
func TestCanUpdateMachineSet(t *testing.T) {
	w := newWorld(t)
	if r := w.canUpdate(infrav1.InPlaceUpdatesRequired); string(r.MachineSetPatch.Patch) != `{"spec":{"template":{"spec":{"version":"`+newVersion+`"}}}}` {
		t.Errorf("the answer is %+v", r)
	}
	if r := w.canUpdate("Always"); r.Status != hooksv1.ResponseStatusFailure || !strings.Contains(r.Message, `is "Always", want Preferred or Required`) {
		t.Errorf("the answer is %+v", r)
	}

	w.agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory.KubernetesVersions = []string{testenv.Version} })
	refuses := func(reason string) {
		t.Helper()
		for _, policy := range []string{"", infrav1.InPlaceUpdatesPreferred} {
			if r := w.canUpdate(policy); r.Status != hooksv1.ResponseStatusSuccess || r.MachineSetPatch.IsDefined() {
				t.Errorf("the answer is %+v", r)
			}
		}
		if r := w.canUpdate(infrav1.InPlaceUpdatesRequired); r.Status != hooksv1.ResponseStatusFailure || !strings.Contains(r.Message, reason) {
			t.Errorf("the answer is %+v, want a failure that says %q", r, reason)
		}
	}
	refuses("MachineSet workers is not replaced, as its annotation " + infrav1.InPlaceUpdatesAnnotation + " asks, and the change cannot be made in place: Host host-1 does not offer Kubernetes " + newVersion)
	w.agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory.KubernetesVersions = []string{testenv.Version, newVersion} })
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		newMachine(w, name, name)
	}
	refuses("HostMachine e has no host; and 2 more")
}
