package cli

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// TestHostMaintenance keeps hosts from being claimed, empties them and reboots them.
func TestHostMaintenance(t *testing.T) {
	kubeconfig, ns := as(t, "", ""), env.Namespace(t)
	command := func(verb string, args ...string) (string, error) {
		return run(t, append([]string{"host", verb, "-n", ns, "--kubeconfig", kubeconfig, "--timeout", "1ms"}, args...)...)
	}
	get := func(o client.Object, name string) {
		t.Helper()
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, o); err != nil {
			t.Fatal(err)
		}
	}
	hostOf := func(name string) *infrav1.Host {
		h := &infrav1.Host{}
		get(h, name)
		return h
	}
	rebootsOf := func(name string) int32 {
		m := &infrav1.HostMachine{}
		get(m, name)
		return ptr.Deref(m.Spec.Reboots, 0)
	}
	create(t, host(ns, "free", "r1"))
	// running has a host that a machine of an owner runs on; the names are those of host and machine.
	running := func(name, ownerKind string) {
		m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "a"}}}
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: ownerKind, Name: name + "-owner", UID: "u"}}
		m.Spec.ClaimID, m.Spec.ProviderID = "claim-"+name, "slipway://"+ns+"/"+name+"/claim-"+name
		create(t, m)
		h := host(ns, name, "r1")
		h.Spec.ClaimGeneration = 1
		h.Spec.Claim = &infrav1.HostClaim{ClaimID: m.Spec.ClaimID, ClusterName: "a", MachineName: name}
		h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredBootstrapped, OperationID: "bootstrap-" + m.Spec.ClaimID, Bootstrapped: ptr.To(true)}
		create(t, h)
	}
	running("pooled", "HostMachinePool")
	running("single", "Machine")

	t.Run("cordon and uncordon", func(t *testing.T) {
		for range 2 {
			if out, err := command("cordon", "free", "--reason", "fan"); err != nil || !strings.Contains(out, "free") {
				t.Fatal(err, out)
			}
		}
		if h := hostOf("free"); !ptr.Deref(h.Spec.Unschedulable, false) || h.Annotations[infrav1.MaintenanceReasonAnnotation] != "fan" {
			t.Errorf("%+v, %v", h.Spec, h.Annotations)
		}
		if _, err := command("evacuate", "free"); err != nil {
			t.Error(err)
		}
		if _, err := command("uncordon", "free"); err != nil {
			t.Error(err)
		}
		if h := hostOf("free"); h.Spec.Unschedulable != nil || h.Spec.Evacuate != nil || len(h.Annotations) > 0 {
			t.Errorf("%+v, %v", h.Spec, h.Annotations)
		}
		if _, err := command("cordon", "nobody"); err == nil || !strings.Contains(err.Error(), "nobody") {
			t.Errorf("%v", err)
		}
	})
	t.Run("evacuate", func(t *testing.T) {
		if out, err := command("evacuate", "free", "-o", "json"); err != nil || !strings.Contains(out, `"done":true`) {
			t.Error(err, out)
		}
		if out, err := command("evacuate", "pooled"); err != nil || !strings.Contains(out, "its pool replaces the machine") {
			t.Error(err, out)
		}
		if _, err := command("evacuate", "single"); err == nil || !strings.Contains(err.Error(), "delete machine.cluster.x-k8s.io/single-owner") {
			t.Errorf("%v", err)
		}
		for _, name := range []string{"free", "pooled", "single"} {
			if h := hostOf(name); !ptr.Deref(h.Spec.Evacuate, false) {
				t.Errorf("%s: %+v", name, h.Spec)
			}
		}
		gone := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "single"}}
		if err := env.Client.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		if _, err := command("evacuate", "single"); err == nil || !strings.Contains(err.Error(), "slipway host reset single -n "+ns) {
			t.Errorf("%v", err)
		}
	})
	t.Run("reboot", func(t *testing.T) {
		for range 2 { // the second one waits for the first, which the manager has not taken yet
			if out, err := command("reboot", "pooled"); err != nil || !strings.Contains(out, "the agent reboots the host") {
				t.Error(err, out)
			}
		}
		if n := rebootsOf("pooled"); n != 1 {
			t.Errorf("%d reboots", n)
		}
		running("next", "Machine")
		if _, err := command("reboot", "pooled", "next"); err == nil || !strings.Contains(err.Error(), "not requested of next") || rebootsOf("next") != 0 {
			t.Errorf("%v, %d", err, rebootsOf("next"))
		}
		if _, err := command("reboot", "free"); err == nil || !strings.Contains(err.Error(), "reboot it yourself") {
			t.Errorf("%v", err)
		}
	})
}
