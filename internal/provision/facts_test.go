package provision

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The namespace is where the host was assigned to, unless it was configured anew since.
func TestFactsOfAnAssignedHost(t *testing.T) {
	const file = "/etc/slipway/agent.yaml"
	for name, tc := range map[string]struct{ configuration, assigned, want string }{
		"never assigned":        {"namespace: pool\n", "", "pool"},
		"assigned":              {"namespace: pool\n", `{"namespace":"team-a","configured":"pool","supersedes":"","certificate":"eA=="}`, "team-a"},
		"configured anew since": {"namespace: third\n", `{"namespace":"team-a","configured":"pool","supersedes":"","certificate":"eA=="}`, "third"},
		"not enrolled":          {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for path, content := range map[string]string{filepath.Join(dir, "agent.yaml"): tc.configuration, filepath.Join(dir, "assigned.json"): tc.assigned} {
				if content == "" {
					continue
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			script := strings.NewReplacer(file, filepath.Join(dir, "agent.yaml"), stateDir, dir).Replace(factsScript)
			printed, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
			if err != nil {
				t.Fatal(err)
			}
			facts, err := parseFacts(string(printed))
			if err != nil || facts.Namespace != tc.want {
				t.Errorf("namespace %q, want %q: %v", facts.Namespace, tc.want, err)
			}
		})
	}
}
