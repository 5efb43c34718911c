package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const head = "apiVersion: agent.slipway.dev/v1alpha1\nkind: AgentConfiguration\n"

func TestDefaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, []byte(head+"namespace: ns\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.StateDir != "/var/lib/slipway-agent" || c.BootstrapKubeconfig != "/etc/slipway/bootstrap-kubeconfig" || c.CRISocket == "" ||
		c.HeartbeatInterval.Duration != 10*time.Second || c.LeaseDuration.Duration != 40*time.Second || c.KubernetesDirectories[0] != "/opt/slipway/kubernetes" {
		t.Errorf("defaults are %+v", c)
	}
}

func TestErrorsNameTheField(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"nothing":           {"", "apiVersion"},
		"other kind":        {"apiVersion: agent.slipway.dev/v1\nkind: AgentConfiguration\n", "v1alpha1"},
		"no namespace":      {head, "namespace is required"},
		"unknown field":     {head + "namespace: a\nhostname: b\n", `unknown field "hostname"`},
		"field twice":       {head + "namespace: a\nnamespace: b\n", "namespace"},
		"wrong type":        {head + "namespace: [a]\n", "namespace"},
		"host name":         {head + "namespace: a\nhostName: A_B\n", "hostName"},
		"long host name":    {head + "namespace: a\nhostName: " + strings.Repeat("a", 64) + "\n", "hostName"},
		"relative path":     {head + "namespace: a\nstateDir: x\n", "stateDir"},
		"interval":          {head + "namespace: a\nheartbeatInterval: 1ms\n", "heartbeatInterval"},
		"long lease":        {head + "namespace: a\nleaseDuration: 2h\n", "leaseDuration"},
		"short lease":       {head + "namespace: a\nleaseDuration: 11s\n", "leaseDuration"},
		"address":           {head + "namespace: a\nnodeIP: 10.0.0\n", "nodeIP"},
		"public health":     {head + "namespace: a\nhealthAddress: 0.0.0.0:80\n", "healthAddress"},
		"version directory": {head + "namespace: a\nkubernetesDirectories: [x]\n", "kubernetesDirectories"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error is %v, want %q", err, c.want)
			}
		})
	}
}

// A mistake in clean.ignore takes no other entry with it, and does not keep the agent from its host.
func TestWrongEntriesAreLeftOut(t *testing.T) {
	c, err := parse([]byte(head + `namespace: a
clean:
  ignore:
    - {kind: file, name: /etc/a/**, reason: of mine}
    - {kind: fil, name: /etc/b, reason: of mine}
    - {kind: file, name: "/etc/[", reason: of mine}
    - {kind: file, name: /etc/c}
    - {kind: route, reason: of mine}
`))
	if err != nil {
		t.Fatal(err)
	}
	accepted, wrong := c.Clean.Accepted([]string{"file", "route"})
	if len(accepted) != 1 || accepted[0].Name != "/etc/a/**" || len(wrong) != 4 {
		t.Fatalf("%+v, %q", accepted, wrong)
	}
	for i, want := range []string{`entry 2 of clean.ignore (kind "fil", name "/etc/b"): kind must be one of file, route`, "entry 3 of clean.ignore", "entry 4 of clean.ignore", "entry 5 of clean.ignore"} {
		if !strings.Contains(wrong[i], want) {
			t.Errorf("%q does not say %q", wrong[i], want)
		}
	}
}

func TestMissingFileTellsWhatToWrite(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "agent.yaml"))
	if err == nil || !strings.Contains(err.Error(), "AgentConfiguration") {
		t.Fatalf("error is %v", err)
	}
}
