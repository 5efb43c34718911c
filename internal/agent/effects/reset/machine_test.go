package reset_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/effects/reset"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
)

// machineVariable says what to do on the machine that TestClean of test/vm sent this test to.
const machineVariable = "SLIPWAY_TEST_MACHINE"

// journalOfMachine has what the agent's journal has, between one step and the next.
const journalOfMachine = "/var/lib/slipway-agent/tested.json"

// TestOnMachine changes the machine that it runs on: it does nothing unless a machine of test/vm is told to.
func TestOnMachine(t *testing.T) {
	step := os.Getenv(machineVariable)
	if step == "" {
		t.Skip("runs on a machine of test/vm, as TestClean there has it")
	}
	cleaner := reset.Cleaner{
		Runner: command.System{}, Network: network.Kernel{}, Probe: nobody, CRISocket: "/run/containerd/containerd.sock", Records: "/var/lib/slipway-agent/records",
		Hostname: os.Hostname, SetHostname: func(name string) error { return unix.Sethostname([]byte(name)) }, KillInterrupted: func(context.Context) error { return nil },
		Log: slog.New(slog.NewTextHandler(os.Stdout, nil)),
	}
	p := &progress{state: journal.State{Residue: journal.ResidueFiles}}
	if step == "record" {
		p.state.Baseline = must(cleaner.Baseline(t.Context()))(t)
	} else if err := json.Unmarshal(must(os.ReadFile(journalOfMachine))(t), &p.state); err != nil {
		t.Fatal(err)
	}
	switch step {
	case "made":
		if err := cleaner.RecordMade(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	case "reset":
		if err := cleaner.Reset(t.Context(), p); err != nil {
			t.Errorf("reset: %v", err)
		}
		for _, left := range must(cleaner.Verify(t.Context(), p.state))(t) {
			t.Error(left)
		}
	}
	if err := os.WriteFile(journalOfMachine, must(json.Marshal(p.state))(t), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
