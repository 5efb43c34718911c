package logs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/shared"
	"github.com/slipway-dev/slipway/test/logs"
)

// The agent writes no log of Kubernetes' libraries, and each of its lines names its Host. It
// cannot enroll here, which it tells again and again; on a claimed host test/docs has its word.
func TestAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a program, skipped by -short")
	}
	dir := t.TempDir()
	program, err := shared.Program(t.Context(), "github.com/slipway-dev/slipway/cmd/slipway-agent")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	config := filepath.Join(dir, "agent.yaml")
	content := fmt.Sprintf("apiVersion: agent.slipway.dev/v1alpha1\nkind: AgentConfiguration\nnamespace: default\nhostName: host-1\n"+
		"bootstrapKubeconfig: %[1]s/none\nstateDir: %[1]s/state\nkubernetesDirectories: [%[1]s]\n", dir)
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	agent := exec.CommandContext(t.Context(), program, "run", "-config", config, "-root", filepath.Join(dir, "root"), "-logging-format", "json")
	agent.Stdout, agent.Stderr = out, out
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	const enough = 3
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if text, err := os.ReadFile(log); err == nil && strings.Count(string(text), "\n") >= enough {
			break
		}
	}
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := agent.Wait(); err != nil {
		t.Errorf("the agent ends with %v", err)
	}
	text, err := os.ReadFile(log)
	if lines := strings.Count(string(text), "\n"); err != nil || lines < enough {
		t.Errorf("it wrote %d lines, %v:\n%s", lines, err, text)
	}
	logs.Check(t, log, "Host")
}
