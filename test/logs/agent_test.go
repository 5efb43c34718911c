package logs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
	"github.com/slipway-dev/slipway/test/logs"
)

// The agent writes no log of Kubernetes' libraries, and each of its lines names its Host. It
// cannot enroll here, which it tells again and again; on a claimed host test/docs has its word.
func TestAgent(t *testing.T) {
	agent, log := agentOn(t.Context(), t, filepath.Join(t.TempDir(), "state"))
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	const enough = 3
	poll.True(t, "it wrote enough lines", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Count(string(text), "\n") >= enough
	})
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

// Why an agent ended is a line of its log, too.
func TestAgentEnds(t *testing.T) {
	for name, state := range map[string]string{"it cannot work on this host": "/dev/null", "its configuration is refused": "state"} {
		t.Run(name, func(t *testing.T) {
			agent, log := agentOn(poll.Context(t), t, state)
			if err := agent.Run(); agent.ProcessState.ExitCode() != 1 {
				t.Errorf("the agent ends with %v, want 1", err)
			}
			if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), `"err":`) {
				t.Errorf("it does not tell why: %q, %v", text, err)
			}
			logs.Check(t, log)
		})
	}
}

// agentOn is an agent with that state directory, which writes the log, in JSON.
func agentOn(ctx context.Context, t *testing.T, stateDir string) (agent *exec.Cmd, log string) {
	t.Helper()
	level.Deep(t)
	program, err := shared.Program(ctx, "github.com/slipway-dev/slipway/cmd/slipway-agent")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "agent.yaml")
	content := fmt.Sprintf("apiVersion: agent.slipway.dev/v1alpha1\nkind: AgentConfiguration\nnamespace: default\nhostName: host-1\n"+
		"bootstrapKubeconfig: %[1]s/none\nstateDir: %[2]s\nkubernetesDirectories: [%[1]s]\n", dir, stateDir)
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	log = filepath.Join(dir, "log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	agent = exec.CommandContext(ctx, program, "run", "-config", config, "-root", filepath.Join(dir, "root"), "-logging-format", "json")
	agent.Stdout, agent.Stderr = out, out
	return agent, log
}
