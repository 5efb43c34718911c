package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/level"
)

// TestCheckUpgrade asks, of a cluster that runs, what each next version would refuse: of workers with a feature gate that
// the next version does not know exactly that, and everything else of the cluster was tried and is taken.
func TestCheckUpgrade(t *testing.T) {
	level.Deep(t)
	p := newPlane(t, 2)
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	worker := "machineDeployments: [{class: default-worker, name: md, replicas: 1}]"
	if err := os.WriteFile(file, []byte(clusterOf(older, worker)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.up("--fast", "--hosts", "2", "-f", file)
	p.eventually("two nodes of "+older, all(readyNodes(2), nodesOf(older, 2)))
	check := func() (code int, checks map[string]string) {
		t.Helper()
		i := p.command("check", "upgrade", "local", "--to", current, "-o", "json")
		_ = i.Run()
		var said struct {
			Checks []struct{ Kind, Name, Program, Result, Message string }
		}
		if err := json.Unmarshal(i.stdout.Bytes(), &said); err != nil || len(said.Checks) == 0 {
			t.Fatalf("%v\n%s\n%s", err, i.stdout.String(), i.stderr.String())
		}
		checks = map[string]string{}
		for _, c := range said.Checks {
			if c.Result != "Accepted" {
				checks[c.Kind+" "+c.Name+" "+c.Program] = c.Result + ": " + c.Message
			}
		}
		return i.ProcessState.ExitCode(), checks
	}
	if code, checks := check(); code != 0 || len(checks) > 0 {
		t.Errorf("exit code %d, not accepted are %q", code, checks)
	}
	gate := goneGate(t, older, current)
	template := strings.TrimSpace(p.mustKubectl("", "get", "machinedeployment", "-o", "jsonpath={.items[0].spec.template.spec.bootstrap.configRef.name}"))
	p.mustKubectl("", "patch", "cluster", "local", "--type", "merge", "-p", `{"spec":{"paused":true}}`)
	p.mustKubectl("", "patch", "kubeadmconfigtemplate", template, "--type", "merge", "-p",
		`{"spec":{"template":{"spec":{"joinConfiguration":{"nodeRegistration":{"kubeletExtraArgs":[{"name":"feature-gates","value":"`+gate+`=true"}]}}}}}}`)
	code, checks := check()
	if message := checks["KubeadmConfigTemplate "+template+" kubelet"]; code != 1 || len(checks) != 1 || !strings.Contains(message, "Refused") || !strings.Contains(message, gate) {
		t.Errorf("exit code %d, not accepted are %q, want the gate %s of the workers", code, checks, gate)
	}
	p.mustKubectl("", "patch", "cluster", "local", "--type", "merge", "-p", `{"spec":{"paused":null}}`)
}
