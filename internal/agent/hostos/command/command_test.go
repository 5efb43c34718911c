package command

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

var testSystem = System{Identity: "command-test"}

func TestRun(t *testing.T) {
	out, err := testSystem.Run(t.Context(), "sh", "-c", "echo $HOME $SLIPWAY_AGENT_RUN")
	if err != nil || string(out) != "/root command-test\n" {
		t.Fatalf("got %q, %v", out, err)
	}
	if out, err := testSystem.RunInput(t.Context(), []byte("in"), "cat"); err != nil || string(out) != "in" {
		t.Fatalf("got %q, %v", out, err)
	}
}

func TestRunErrors(t *testing.T) {
	_, err := testSystem.Run(t.Context(), "sh", "-c", "echo secret >&2; exit 7")
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 7 || strings.Contains(err.Error(), "secret") {
		t.Fatalf("got %v, want exit code 7 without output", err)
	}
	if _, err = testSystem.Run(t.Context(), "sh", "-c", "kill -9 $$"); !errors.As(err, &exit) || exit.Code != 137 {
		t.Fatalf("got %v, want code 137", err)
	}
	if _, err = testSystem.Run(t.Context(), "no-such-program-here"); !errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("got %v, want exec.ErrNotFound", err)
	}
}

func TestDaemonLeftBehindDoesNotHoldRun(t *testing.T) {
	out, err := testSystem.Run(poll.Context(t), "sh", "-c", "sleep infinity & echo $!")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = testSystem.Run(t.Context(), "kill", strings.TrimSpace(string(out)))
}

func TestCancelKillsTheWholeSession(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := testSystem.Run(ctx, "sh", "-c", "sleep 61 & sleep 61; echo end"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want a deadline error", err)
	}
	assertNoneMarked(t)
}

func TestKillMarkedEndsWhatWasLeft(t *testing.T) {
	cmd := testSystem.Command(context.Background(), "sh", "-c", "sleep 62 & sleep 62")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	if err := testSystem.KillMarked(poll.Context(t)); err != nil {
		t.Fatal(err)
	}
	<-done
	if cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatal("the process was not killed")
	}
	assertNoneMarked(t)
}

func assertNoneMarked(t *testing.T) {
	t.Helper()
	poll.Until(t, "no process is left", func() error {
		pids, err := marked("/proc", testSystem.mark())
		if err != nil {
			t.Fatal(err)
		}
		if len(pids) > 0 {
			return fmt.Errorf("processes %v are left", pids)
		}
		return nil
	})
}
