package selfupdate

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// part is what a process of this test binary does.
const part = "SLIPWAY_TEST_SELFUPDATE"

func TestMain(m *testing.M) {
	dir := os.Getenv(part + "_DIR")
	u := &Updater{options: Options{StateDir: dir + "/state", Program: dir + "/bin/slipway-agent"}, limits: limitsOf("")}
	switch os.Getenv(part) {
	case "try":
		u.trial(context.Background())
	case "become":
		fmt.Println(os.Getpid())
		_ = os.Setenv(Variable, "3")
		fmt.Println(u.Become())
	case "on trial":
		trial, err := OnTrial(newVersion)
		fmt.Println(trial != nil, err)
	default:
		os.Exit(m.Run())
	}
}

func process(t *testing.T, does, dir string, more ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), part+"="+does, part+"_DIR="+dir), more...)
	return cmd
}

// An agent that is killed takes the one on trial with it.
func TestKilled(t *testing.T) {
	w := ready(t, silent)
	cmd := process(t, "try", w.dir())
	must(t, cmd.Start())
	child := pid(t, w.dir())
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	poll.Until(t, "the agent on trial is gone", func() error { return gone(child) })
}

// The process stays, and hears of no trial.
func TestBecome(t *testing.T) {
	w := newWorld(t, good)
	must(t, os.WriteFile(w.options.Program, []byte("#!/bin/sh\necho $$ ${SLIPWAY_AGENT_TRIAL-none} $#\n"), 0o755))
	out, err := process(t, "become", w.dir()).Output()
	lines := strings.Split(string(out), "\n")
	if err != nil || len(lines) < 2 || lines[1] != lines[0]+" none 0" {
		t.Errorf("%v: %q", err, out)
	}
	must(t, os.Remove(w.options.Program))
	if out, _ := process(t, "become", w.dir()).Output(); !strings.Contains(string(out), "start slipway-agent again") {
		t.Errorf("%q", out)
	}
}

// A variable that somebody else has set is no pipe.
func TestOnTrial(t *testing.T) {
	for value, want := range map[string]string{Variable + "=1000": "start this one without it", Variable + "=0": "start this one without it", Variable + "=x": "start this one without it", "X=": "false <nil>"} {
		if out, _ := process(t, "on trial", "", value).Output(); !strings.Contains(string(out), want) {
			t.Errorf("%s: %q", value, out)
		}
	}
	read, write, err := os.Pipe()
	must(t, err)
	fd, err := syscall.Dup(int(write.Fd()))
	must(t, err)
	t.Setenv(Variable, strconv.Itoa(fd))
	trial, err := OnTrial(newVersion)
	must(t, err)
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("programs of the agent inherit the pipe: %v", err)
	}
	if _, found := os.LookupEnv(Variable); found {
		t.Error("programs of the agent hear of the trial")
	}
	trial.Started()
	trial.Reported(newVersion)
	trial.Reported(oldVersion)
	check := func(want string) {
		t.Helper()
		got := make([]byte, 100)
		n, err := read.Read(got)
		if err != nil || string(got[:n]) != want {
			t.Errorf("%v: told %q, want %q", err, got[:n], want)
		}
	}
	check("started\n")
	trial.Renewed()
	check("reported\n")
	trial.Renewed()
	must(t, write.Close())
	must(t, trial.pipe.Close())
	if n, _ := read.Read(make([]byte, 1)); n != 0 {
		t.Error("told twice")
	}
	(*Trial)(nil).Started()
	(*Trial)(nil).Renewed()
	(*Trial)(nil).Reported(newVersion)
}

// Neither a heartbeat nor the report of another version is enough.
func TestNotProved(t *testing.T) {
	for name, does := range map[string]func(*Trial){
		"a heartbeat": func(tr *Trial) { tr.Renewed(); tr.Renewed() },
		"a report":    func(tr *Trial) { tr.Reported(newVersion) },
		"a report without the version": func(tr *Trial) {
			tr.Renewed()
			tr.Reported("")
		},
	} {
		read, write, err := os.Pipe()
		must(t, err)
		trial := &Trial{version: newVersion, pipe: write}
		does(trial)
		must(t, write.Close())
		if n, _ := read.Read(make([]byte, 20)); n != 0 {
			t.Errorf("%s is enough", name)
		}
	}
}
