package cli

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// Before something is deleted, a user of a terminal reads which management cluster it is in: context and API
// server. No other answer changes anything.
func TestQuestionsNameTheirTarget(t *testing.T) {
	kubeconfig := as(t, "", "")
	ns := env.Namespace(t)
	testenv.NewCluster(t, env.Client, ns)
	h := host(ns, "h1", "r1")
	create(t, h)
	for line, want := range map[string]string{
		"cluster delete c1":        "Cluster " + ns + "/c1 of ",
		"host reset h1":            "Reset h1 in namespace " + ns + " of ",
		"host remove h1 --no-ssh ": "Remove h1 in namespace " + ns + " of ",
	} {
		for _, answer := range []string{"", "n\n", "h1\n"} {
			command, prompted := plugin(), &bytes.Buffer{}
			command.SetIn(strings.NewReader(answer))
			command.SetOut(&bytes.Buffer{})
			command.SetErr(prompted)
			command.SetArgs(append(strings.Fields(line), "-n", ns, "--kubeconfig", kubeconfig))
			err := command.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), "nothing was ") {
				t.Errorf("%s, answered %q: %v", line, answer, err)
			}
			if target := want + `context "mgmt" of ` + kubeconfig + " (" + strings.TrimSuffix(env.Config.Host, "/"); !strings.Contains(prompted.String(), target) {
				t.Errorf("%s prompts %q, which does not name %s", line, prompted, target)
			}
		}
	}
	for _, left := range []client.Object{&infrav1.Host{ObjectMeta: metav1.ObjectMeta{Name: "h1"}}, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}} {
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: left.GetName()}, left); err != nil || !left.GetDeletionTimestamp().IsZero() {
			t.Errorf("%T: %v", left, err)
		}
	}
	// Scripts continue, and have the target in their log.
	out, err := run(t, "host", "remove", "h1", "--no-ssh", "-n", ns, "--kubeconfig", kubeconfig)
	if err != nil || !strings.Contains(out, "h1") {
		t.Errorf("without a terminal: %v\n%s", err, out)
	}
}
