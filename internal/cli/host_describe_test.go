package cli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// A host is shown with what is wrong with it, the command that ends that, and who requested what of it and why.
func TestHostDescribe(t *testing.T) {
	kubeconfig := as(t, "", "")
	namespace := env.Namespace(t)
	testenv.NewHost(t, env.Client, namespace, "h1", time.Now(), func(h *infrav1.Host) { h.Spec.FailureDomain = "rack-7" })
	at := []string{"-n", namespace, "--kubeconfig", kubeconfig}
	if out, err := run(t, append([]string{"host", "cordon", "h1", "--reason", "fan is loud"}, at...)...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := run(t, append([]string{"host", "drain", "h1"}, at...)...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lease := &coordinationv1.Lease{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "h1"}, lease); err != nil {
		t.Fatal(err)
	}
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(-3 * time.Hour)))
	if err := env.Client.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, append([]string{"host", "list", "-o", "wide"}, at...)...); err != nil || !regexp.MustCompile(`LAST SEEN.*\n.*rack-7 +[0-9]+s +3h`).MatchString(out) {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := run(t, append([]string{"host", "describe", "h1"}, at...)...)
	for _, want := range []string{namespace + "/h1", "rack-7", "because  ", "slipway host uncordon h1 -n " + namespace, "Cordon requested by ", ": fan is loud", "Evacuate requested by "} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v, no %q in\n%s", err, want, out)
		}
	}
	out, err = run(t, append([]string{"host", "describe", "h1", "-o", "json"}, at...)...)
	var fields map[string]any
	if err := json.Unmarshal([]byte(out[max(0, strings.Index(out, "{")):]), &fields); err != nil || fields["failureDomain"] != "rack-7" || len(fields["findings"].([]any)) == 0 || len(fields["events"].([]any)) != 2 || fields["conditions"] == nil {
		t.Errorf("%v: %s", err, out)
	}
	if err != nil {
		t.Error(err)
	}
	if _, err := run(t, append([]string{"host", "describe", "nobody"}, at...)...); err == nil || !strings.Contains(err.Error(), "has no host nobody; see `slipway host list`") {
		t.Errorf("of nobody: %v", err)
	}
	if _, err := run(t, append([]string{"host", "replace", "h1", "--yes"}, at...)...); err == nil || !strings.Contains(err.Error(), "no Machine has it") {
		t.Errorf("a free host has a machine: %v", err)
	}
	completed, err := run(t, append([]string{"__complete", "host", "add"}, append(at, "--failure-domain", "")...)...)
	if err != nil || !strings.Contains(completed, "rack-7") {
		t.Errorf("%v\n%s", err, completed)
	}
}
