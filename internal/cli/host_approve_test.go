package cli

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Hosts that wait are approved by name, with what to compare; a mistake stops no other.
func TestApproveHosts(t *testing.T) {
	kubeconfig := as(t, "", "")
	ns := env.Namespace(t)
	for name, approval := range map[string]infrav1.HostApproval{
		"h1": infrav1.HostApprovalPending, "h2": infrav1.HostApprovalPending, "h3": infrav1.HostApprovalDenied, "h4": infrav1.HostApprovalApproved, "h5": "",
	} {
		h := host(ns, name, "r1")
		h.Spec.Approval = approval
		create(t, h)
	}
	approval := func(name string) infrav1.HostApproval {
		t.Helper()
		h := &infrav1.Host{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, h); err != nil {
			t.Fatal(err)
		}
		return h.Spec.Approval
	}
	approve := func(args ...string) (string, error) {
		return run(t, append([]string{"host", "approve", "-n", ns, "--kubeconfig", kubeconfig}, args...)...)
	}
	completed, err := run(t, "__complete", "host", "approve", "-n", ns, "--kubeconfig", kubeconfig, "h2", "")
	if names := strings.Fields(completed); err != nil || !slices.Contains(names, "h1") || !slices.Contains(names, "h3") || slices.Contains(names, "h2") || slices.Contains(names, "h4") {
		t.Errorf("completion: %v\n%s", err, completed)
	}
	out, err := approve("h1", "h9", "h4")
	if err == nil || !strings.Contains(err.Error(), "there is no host h9 in namespace "+ns+"; these are not approved: h2, h3") || approval("h1") != infrav1.HostApprovalApproved {
		t.Errorf("h1 is %s: %v", approval("h1"), err)
	}
	for _, want := range []string{"h1  ", "Approved", host(ns, "h1", "").Spec.HostID, "not reported yet", "h4  "} {
		if !strings.Contains(out, want) {
			t.Errorf("does not show %q:\n%s", want, out)
		}
	}
	if out, err := approve("h3", "h5", "-o", "name"); err != nil || out != "host.infrastructure.slipway.dev/h3\nhost.infrastructure.slipway.dev/h5\n" || approval("h3") != infrav1.HostApprovalApproved {
		t.Errorf("h3 is %s: %v\n%s", approval("h3"), err, out)
	}
	if approval("h2") != infrav1.HostApprovalPending {
		t.Error("a host was approved that nobody named")
	}
	if _, err := approve(); err == nil {
		t.Error("no host was named, and nothing said")
	}
	kubeconfig = as(t, "carl", "")
	env.GrantIn(t, "carl", ns, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"hosts"}})
	if _, err := approve("h2"); err == nil || !strings.Contains(err.Error(), `user "carl" may not patch hosts.infrastructure.slipway.dev h2 in namespace `+ns) {
		t.Errorf("got %v", err)
	}
}
