package hostmachine_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// release makes a KubernetesRelease, whose digest is of that letter. It is of no namespace:
// each test has versions of its own.
func release(t *testing.T, version, letter string) *infrav1.KubernetesRelease {
	t.Helper()
	r := &infrav1.KubernetesRelease{ObjectMeta: metav1.ObjectMeta{Name: version}}
	r.Spec = infrav1.KubernetesReleaseSpec{Version: version, Digest: digestOf(letter), Architectures: []string{"amd64"}}
	if err := env.Client.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Client.Delete(context.Background(), r) })
	return r
}

func digestOf(letter string) string { return "sha256:" + strings.Repeat(letter, 64) }

// managed reports that the agent installs versions.
func managed(t *testing.T, agent *testenv.Agent) {
	t.Helper()
	agent.Report(t, func(s *infrav1.HostStatus) { s.Software.Management = infrav1.HostSoftwareManaged })
}

// A machine of a version that its host can install gets the host, and the operation names
// the bundle; the one that is loaded when the agent asks.
func TestClaimOfAHostThatInstallsTheVersion(t *testing.T) {
	const version = "v1.90.1"
	w := newWorld(t)
	agent := w.host("host-1")
	w.host("host-2")
	managed(t, agent)
	key := w.machine("m1", func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Spec.Version = version })
	m, _ := w.reconcile(key)
	why := conditions.GetMessage(m, infrav1.HostClaimedCondition)
	if !strings.Contains(why, "1 Kubernetes v1.90.1 not offered: neither installed nor in a KubernetesRelease for amd64 (host-1)") ||
		!strings.Contains(why, "1 Kubernetes v1.90.1 not installed (host-2)") {
		t.Errorf("it waits: %s", why)
	}
	r := release(t, version, "a")
	m, _ = w.reconcile(key)
	if h := agent.Host(t); h.Spec.Desired == nil || h.Spec.Desired.Version != version || h.Spec.Desired.ReleaseDigest != digestOf("a") {
		t.Fatalf("desired = %+v; %s", h.Spec.Desired, conditions.GetMessage(m, infrav1.HostClaimedCondition))
	}
	r.Spec.Digest = digestOf("b")
	if err := env.Client.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	w.reconcile(key)
	if h := agent.Host(t); h.Spec.Desired.ReleaseDigest != digestOf("b") || h.Spec.ClaimGeneration != 1 {
		t.Errorf("desired = %+v", h.Spec.Desired)
	}
	// What is loaded later is for others: this one is a node.
	agent.Obey(t, w.clock.Now())
	w.reconcile(key)
	r.Spec.Digest = digestOf("c")
	if err := env.Client.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if m, _ = w.reconcile(key); m.Status.Version != version || agent.Host(t).Spec.Desired.ReleaseDigest != digestOf("b") {
		t.Errorf("version %s, desired = %+v", m.Status.Version, agent.Host(t).Spec.Desired)
	}
}

// An upgrade in place brings the version with it.
func TestUpgradeInstallsTheVersion(t *testing.T) {
	const version = "v1.90.2"
	w := newWorld(t)
	agent := w.host("host-1")
	managed(t, agent)
	key := w.machine("m1")
	w.reconcile(key)
	agent.Obey(t, w.clock.Now())
	m, _ := w.reconcile(key)
	m.Spec.Version = version
	if err := env.Client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	m, _ = w.reconcile(key)
	if c := conditions.Get(m, infrav1.UpToDateCondition); c.Reason != infrav1.HostMachineVersionNotOfferedReason || !strings.Contains(c.Message, "for amd64 by `slipway bundle load`") {
		t.Errorf("UpToDate = %+v", c)
	}
	release(t, version, "a")
	w.reconcile(key)
	if d := agent.Host(t).Spec.Desired; d.Phase != infrav1.HostDesiredUpgraded || d.Version != version || d.ReleaseDigest != digestOf("a") {
		t.Errorf("desired = %+v", d)
	}
	agent.Obey(t, w.clock.Now())
	if m, _ = w.reconcile(key); m.Status.Version != version || !conditions.IsTrue(m, infrav1.UpToDateCondition) {
		t.Errorf("version %s, UpToDate = %+v", m.Status.Version, conditions.Get(m, infrav1.UpToDateCondition))
	}
}

func TestReleasesThatAreRefused(t *testing.T) {
	testenv.Skip(t)
	for name, c := range map[string]struct {
		change func(*infrav1.KubernetesRelease)
		want   string
	}{
		"another name":      {func(r *infrav1.KubernetesRelease) { r.Name = "v1.90.4" }, "has the name of its spec.version"},
		"no version":        {func(r *infrav1.KubernetesRelease) { r.Name, r.Spec.Version = "1.90", "1.90" }, "spec.version"},
		"no digest":         {func(r *infrav1.KubernetesRelease) { r.Spec.Digest = "sha256:abc" }, "spec.digest"},
		"no architecture":   {func(r *infrav1.KubernetesRelease) { r.Spec.Architectures = nil }, "spec.architectures"},
		"architecture of C": {func(r *infrav1.KubernetesRelease) { r.Spec.Architectures = []string{"x86_64"} }, "spec.architectures"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &infrav1.KubernetesRelease{ObjectMeta: metav1.ObjectMeta{Name: "v1.90.3"}}
			r.Spec = infrav1.KubernetesReleaseSpec{Version: "v1.90.3", Digest: digestOf("a"), Architectures: []string{"amd64"}}
			c.change(r)
			if err := env.Client.Create(t.Context(), r, client.DryRunAll); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v, want %q", err, c.want)
			}
		})
	}
}
