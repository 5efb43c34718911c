package cli

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// The ways out of a quarantine. There is no manager: what is ordered stands, and says so.
func TestWaysOutOfAQuarantine(t *testing.T) {
	kubeconfig := as(t, "", "")
	ns := env.Namespace(t)
	cluster := testenv.NewCluster(t, env.Client, ns)
	hostWith := func(name string, generation int64, status infrav1.HostStatus) {
		t.Helper()
		h := host(ns, name, "r1")
		h.Spec.ClaimGeneration = generation
		create(t, h)
		h.Status = status
		h.Status.BootID = "boot"
		if err := env.Client.Status().Update(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	get := func(name string) *infrav1.Host {
		t.Helper()
		h := &infrav1.Host{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, h); err != nil {
			t.Fatal(err)
		}
		return h
	}
	command := func(verb string, args ...string) (string, error) {
		return run(t, append([]string{"host", verb, "-n", ns, "--kubeconfig", kubeconfig, "--timeout", "1ms"}, args...)...)
	}
	record := func(state infrav1.HostRecordState, claim string) *infrav1.HostRecord {
		return &infrav1.HostRecord{State: state, ClaimID: claim, ClaimGeneration: ptr.To[int64](5)}
	}
	hostWith("node", 0, infrav1.HostStatus{Record: record(infrav1.HostRecordNode, "former")})
	hostWith("orphan", 0, infrav1.HostStatus{Record: record(infrav1.HostRecordNode, "nobody")})
	hostWith("unowned", 0, infrav1.HostStatus{Record: record(infrav1.HostRecordNode, "nobody else")})
	hostWith("remains", 2, infrav1.HostStatus{Record: record(infrav1.HostRecordRemains, "x")})
	hostWith("foreign", 0, infrav1.HostStatus{Residue: []string{"process kubelet"}})
	hostWith("clean", 0, infrav1.HostStatus{CleanProof: &infrav1.CleanProof{BootID: "boot", Time: metav1.Now()}})
	machine := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "m", Labels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name}}}
	machine.Spec.ClaimID, machine.Spec.ProviderID = "former", "slipway://"+ns+"/node/former"
	create(t, machine)

	// adopt: back to the machine of the claim on record; twice is once.
	for range 2 {
		if out, err := command("adopt", "node"); err != nil || !strings.Contains(out, "Running") {
			t.Errorf("%v\n%s", err, out)
		}
	}
	// However short the wait is, the host is looked at once.
	if out, err := command("adopt", "node", "--timeout", "1ns", "-o", "json"); err != nil || !strings.Contains(out, `"done":true`) {
		t.Errorf("%v\n%s", err, out)
	}
	if h := get("node"); h.Spec.Claim == nil || h.Spec.Claim.MachineName != "m" || h.Spec.ClaimGeneration != 5 || !ptr.Deref(h.Spec.Desired.Bootstrapped, false) {
		t.Errorf("%+v", h.Spec)
	}
	if _, err := command("adopt", "orphan"); err == nil || !strings.Contains(err.Error(), "no HostMachine of namespace "+ns+" is of claim nobody") {
		t.Errorf("%v", err)
	}
	// Without its HostMachine a worker's node gets a new one, once it is found in its cluster.
	if _, err := command("adopt", "orphan", "--cluster", cluster.Name); err == nil || !strings.Contains(err.Error(), "has no kubeconfig yet") {
		t.Errorf("%v", err)
	}
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: cluster.Name + "-kubeconfig"}, Data: map[string][]byte{"value": env.Kubeconfig}})
	if _, err := command("adopt", "orphan", "--cluster", cluster.Name); err == nil || !strings.Contains(err.Error(), "has the provider ID slipway://"+ns+"/orphan/nobody; `slipway host reset orphan") {
		t.Errorf("%v", err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}, Spec: corev1.NodeSpec{ProviderID: "slipway://" + ns + "/orphan/nobody"}}
	create(t, node)
	t.Cleanup(func() { _ = env.Client.Delete(context.WithoutCancel(t.Context()), node) })
	if _, err := command("adopt", "orphan", "--cluster", cluster.Name); err == nil || !strings.Contains(err.Error(), "is of the control plane") {
		t.Errorf("%v", err)
	}
	node.Labels = nil
	if err := env.Client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if out, err := command("adopt", "orphan", "--cluster", cluster.Name); err != nil || !strings.Contains(out, "Running") {
			t.Errorf("%v\n%s", err, out)
		}
	}
	again, its := &infrav1.HostMachine{}, &clusterv1.Machine{}
	for _, object := range []client.Object{again, its} {
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "orphan"}, object); err != nil {
			t.Fatal(err)
		}
	}
	if h := get("orphan"); h.Spec.Claim == nil || h.Spec.Claim.MachineName != "orphan" || h.Spec.Claim.ClusterName != cluster.Name || !ptr.Deref(h.Spec.Desired.Bootstrapped, false) ||
		again.Spec.ClaimID != "nobody" || again.Spec.ProviderID != node.Spec.ProviderID || its.Spec.InfrastructureRef.Name != "orphan" {
		t.Errorf("%+v, %+v, %+v", h.Spec, again.Spec, its.Spec)
	}
	if _, err := command("adopt", "remains"); err == nil || !strings.Contains(err.Error(), "--cluster") {
		t.Errorf("%v", err)
	}
	if out, err := command("adopt", "foreign", "--cluster", cluster.Name); err != nil || !strings.Contains(out, "the request is recorded") {
		t.Errorf("%v\n%s", err, out)
	}
	adopting, owner := &infrav1.HostMachine{}, &clusterv1.Machine{}
	for _, object := range []client.Object{adopting, owner} {
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "foreign"}, object); err != nil {
			t.Fatal(err)
		}
	}
	if adopting.Spec.Adopt.HostName != "foreign" || owner.Spec.ClusterName != cluster.Name || owner.Spec.InfrastructureRef.Name != "foreign" {
		t.Errorf("%+v, %+v", adopting.Spec, owner.Spec)
	}

	// reset: for what is on record; not of a machine's host, nor of a clean one.
	if out, err := command("reset", "remains", "unowned"); err != nil || strings.Count(out, "the request is recorded") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
	for name, generation := range map[string]int64{"remains": 6, "unowned": 6} {
		if h := get(name); h.Spec.Desired == nil || h.Spec.Desired.Phase != infrav1.HostDesiredReset || h.Spec.ClaimGeneration != generation {
			t.Errorf("%s: %+v", name, h.Spec)
		}
	}
	if _, err := command("reset", "node"); err == nil || !strings.Contains(err.Error(), "delete its Machine") {
		t.Errorf("%v", err)
	}
	if _, err := command("reset", "clean"); err == nil {
		t.Error("a clean host was reset")
	}

	// clear-quarantine: for this claim, and answered where it means nothing.
	if out, err := command("clear-quarantine", "remains"); err != nil || !strings.Contains(out, "the request is recorded") || get("remains").Annotations[infrav1.ClearQuarantineAnnotation] != "6" {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := command("clear-quarantine", "clean"); err == nil || !strings.Contains(err.Error(), "is clean") {
		t.Errorf("%v", err)
	}
	if _, err := command("clear-quarantine", "node"); err == nil || !strings.Contains(err.Error(), "not quarantined") {
		t.Errorf("%v", err)
	}
	if _, err := command("reset", "nobody"); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("%v", err)
	}
}
