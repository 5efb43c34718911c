package unit

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// fakeProcesses runs nothing. A process ends when it gets a signal, unless it is deaf.
type fakeProcesses struct {
	mu      sync.Mutex
	next    int
	running map[int][]string
	started [][]string
	envs    [][]string
	fail    map[string]bool
	deaf    map[string]bool
	signals []string
	exits   chan Exit
}

func newFake() *fakeProcesses {
	return &fakeProcesses{running: map[int][]string{}, fail: map[string]bool{}, deaf: map[string]bool{}, exits: make(chan Exit, 100)}
}

func (f *fakeProcesses) Start(argv, env []string, _ *os.File) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail[argv[0]] {
		return 0, errors.New("no such program")
	}
	f.next++
	f.running[f.next] = argv
	f.started, f.envs = append(f.started, argv), append(f.envs, env)
	return f.next, nil
}

func (f *fakeProcesses) Signal(pid int, sig syscall.Signal, group bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	argv, ok := f.running[pid]
	if !ok {
		return
	}
	name := sig.String()
	if group {
		name += " to group"
	}
	f.signals = append(f.signals, argv[0]+": "+name)
	if f.deaf[argv[0]] && sig != syscall.SIGKILL {
		return
	}
	delete(f.running, pid)
	f.exits <- Exit{PID: pid, Status: syscall.WaitStatus(sig)}
}

func (f *fakeProcesses) Exits() <-chan Exit { return f.exits }

// end ends all processes of a program, as if it had crashed.
func (f *fakeProcesses) end(program string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for pid, argv := range f.running {
		if argv[0] == program {
			delete(f.running, pid)
			f.exits <- Exit{PID: pid, Status: 1 << 8}
		}
	}
}

func (f *fakeProcesses) starts(program string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, argv := range f.started {
		if argv[0] == program {
			n++
		}
	}
	return n
}

// run starts a supervisor that stops with the test.
func run(t *testing.T, f *fakeProcesses, units ...Unit) (s *Supervisor, stop func()) {
	t.Helper()
	s, err := NewSupervisor(Config{Units: units, Env: []string{"PATH=/bin"}, LogDir: t.TempDir(), StateDir: t.TempDir(), Processes: f})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go s.Run(ctx)
	stop = func() { cancel(); <-s.done }
	t.Cleanup(stop)
	return s, stop
}

func (s *Supervisor) state(name string) string {
	return strings.TrimSpace(s.Systemctl(context.Background(), []string{"is-active", name}).Stdout)
}

func TestSystemctlAnswers(t *testing.T) {
	f := newFake()
	f.fail["broken"] = true
	config := filepath.Join(t.TempDir(), "config.yaml")
	s, _ := run(t, f,
		Unit{Name: "a", Argv: []string{"a"}},
		Unit{Name: "kubelet", Argv: []string{"kubelet"}, ConditionPath: config},
		Unit{Name: "broken", Argv: []string{"broken"}, RestartDelay: time.Hour})
	for _, c := range []struct {
		args string
		want Reply
	}{
		{"daemon-reload", Reply{}},
		{"is-system-running", Reply{0, "running\n", ""}},
		{"is-active a", Reply{0, "active\n", ""}},
		{"is-active -q a.service", Reply{}},
		{"is-active kubelet", Reply{3, "activating\n", ""}},
		{"is-active unknown", Reply{3, "inactive\n", ""}},
		{"is-enabled a", Reply{0, "enabled\n", ""}},
		{"is-enabled unknown", Reply{1, "", "Failed to get unit file state for unknown.service: No such file or directory\n"}},
		{"start a", Reply{}},
		{"start kubelet", Reply{}}, // as with systemd, an unmet condition is no failure
		{"start unknown", Reply{5, "", "Failed to start unknown.service: Unit unknown.service not found.\n"}},
		{"restart unknown.service", Reply{5, "", "Failed to restart unknown.service: Unit unknown.service not found.\n"}},
		{"stop unknown", Reply{5, "", "Failed to stop unknown.service: Unit unknown.service not loaded.\n"}},
		{"status unknown", Reply{4, "", "Unit unknown.service could not be found.\n"}},
		{"show --property=MainPID --value kubelet", Reply{0, "0\n", ""}},
		{"show --property=MainPID unknown", Reply{0, "MainPID=0\n", ""}},
		{"show kubelet", Reply{1, "", "Only the property MainPID is known here, not \"\".\n"}},
		{"cat unknown", Reply{1, "", "No files found for unknown.service.\n"}},
		{"enable unknown", Reply{1, "", "Failed to enable unit: Unit file unknown.service does not exist.\n"}},
		{"stop a", Reply{}},
		{"is-active a kubelet", Reply{3, "inactive\nactivating\n", ""}},
		{"start --no-block a", Reply{}},
		{"disable --now a", Reply{}},
		{"is-enabled a", Reply{1, "disabled\n", ""}},
		{"is-active a", Reply{3, "inactive\n", ""}},
		{"enable --now a", Reply{}},
		{"is-active a", Reply{0, "active\n", ""}},
		{"frobnicate a", Reply{1, "", "Unknown command verb frobnicate.\n"}},
		{"start", Reply{1, "", "Too few arguments.\n"}},
		{"reboot", Reply{1, "", "Failed to reboot: this host cannot be switched on again.\n"}},
	} {
		if got := s.Systemctl(t.Context(), strings.Fields(c.args)); got != c.want {
			t.Errorf("systemctl %s: %+v, want %+v", c.args, got, c.want)
		}
	}
	if got := s.Systemctl(t.Context(), []string{"start", "broken"}); got.Code != 1 || !strings.Contains(got.Stderr, "no such program") {
		t.Errorf("start of a broken unit: %+v", got)
	}
	if got := s.Systemctl(t.Context(), []string{"status", "a"}); got.Code != 0 || !strings.Contains(got.Stdout, "Active: active (running)") || !strings.Contains(got.Stdout, "Main PID:") {
		t.Errorf("status: %+v", got)
	}
	if got := s.Systemctl(t.Context(), []string{"show", "--value", "--property=MainPID", "a.service"}); got.Code != 0 || got.Stdout == "0\n" {
		t.Errorf("show: %+v", got)
	}
	if got := s.Systemctl(t.Context(), []string{"cat", "kubelet"}); got.Code != 0 || !strings.Contains(got.Stdout, "ConditionPathExists="+config) {
		t.Errorf("cat: %+v", got)
	}
}

func TestConditionThatComesTrueStartsTheUnit(t *testing.T) {
	f := newFake()
	config := filepath.Join(t.TempDir(), "config.yaml")
	s, _ := run(t, f, Unit{Name: "kubelet", Argv: []string{"kubelet"}, ConditionPath: config})
	if f.starts("kubelet") != 0 {
		t.Fatal("started without its condition")
	}
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "kubelet runs", func() bool { return s.state("kubelet") == "active" })
}

func TestRestarts(t *testing.T) {
	f := newFake()
	s, _ := run(t, f, Unit{Name: "a", Argv: []string{"a"}, RestartDelay: time.Millisecond, KillGroup: true})
	poll.True(t, "a runs", func() bool { return s.state("a") == "active" })
	f.end("a")
	poll.True(t, "a is started again", func() bool { return f.starts("a") == 2 && s.state("a") == "active" })
	if r := s.Systemctl(t.Context(), []string{"restart", "a"}); r.Code != 0 {
		t.Fatalf("restart: %+v", r)
	}
	if n := f.starts("a"); n != 3 {
		t.Errorf("%d starts after a restart", n)
	}
	if r := s.Systemctl(t.Context(), []string{"stop", "a"}); r.Code != 0 || s.state("a") != "inactive" {
		t.Fatalf("stop: %+v, %s", r, s.state("a"))
	}
	if r := s.Systemctl(t.Context(), []string{"try-restart", "a"}); r.Code != 0 || f.starts("a") != 3 {
		t.Errorf("try-restart started a stopped unit: %+v", r)
	}
}

func TestDeafUnitIsKilled(t *testing.T) {
	f := newFake()
	f.deaf["a"] = true
	s, _ := run(t, f, Unit{Name: "a", Argv: []string{"a"}, StopTimeout: time.Millisecond, KillGroup: true})
	poll.True(t, "a runs", func() bool { return s.state("a") == "active" })
	if r := s.Systemctl(t.Context(), []string{"stop", "a"}); r.Code != 0 {
		t.Fatalf("stop: %+v", r)
	}
	if want := []string{"a: terminated", "a: killed to group"}; !slices.Equal(f.signals, want) {
		t.Errorf("signals %q, want %q", f.signals, want)
	}
}

func TestOrderOfStartAndStop(t *testing.T) {
	f := newFake()
	socket := filepath.Join(t.TempDir(), "s")
	s, stop := run(t, f,
		Unit{Name: "first", Argv: []string{"first"}, ReadySocket: socket},
		Unit{Name: "second", Argv: []string{"second"}, After: []string{"first"}})
	poll.True(t, "first is started", func() bool { return f.starts("first") == 1 })
	if s.state("second") != "activating" || f.starts("second") != 0 {
		t.Fatal("second was started before first was ready")
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	poll.True(t, "second runs", func() bool { return s.state("second") == "active" })
	stop()
	if want := []string{"second: terminated", "first: terminated"}; !slices.Equal(f.signals, want) {
		t.Errorf("signals %q, want %q", f.signals, want)
	}
}

func TestEnvironmentOfAUnit(t *testing.T) {
	f := newFake()
	file := filepath.Join(t.TempDir(), "flags.env")
	if err := os.WriteFile(file, []byte("# kubeadm\nKUBELET_KUBEADM_ARGS=\"--a=1 --b=x=y\"\nHTTP_PROXY='p'\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := run(t, f, Unit{Name: "kubelet", Argv: []string{"kubelet", "--c", "$KUBELET_KUBEADM_ARGS", "$KUBELET_EXTRA_ARGS"},
		Environment: []string{"HTTP_PROXY=default"}, EnvironmentFiles: []string{file, file + ".missing"}})
	poll.True(t, "kubelet runs", func() bool { return s.state("kubelet") == "active" })
	if want := []string{"kubelet", "--c", "--a=1", "--b=x=y"}; !slices.Equal(f.started[0], want) {
		t.Errorf("started %q, want %q", f.started[0], want)
	}
	if env := f.envs[0]; env[0] != "PATH=/bin" || env[len(env)-1] != "HTTP_PROXY=p" {
		t.Errorf("environment %q", env)
	}
}

func TestSocket(t *testing.T) {
	f := newFake()
	s, _ := run(t, f, Unit{Name: "a", Argv: []string{"a"}})
	path := filepath.Join(t.TempDir(), "shim.sock")
	if _, err := Call(path, []string{"is-active", "a"}); err == nil {
		t.Error("an answer without a supervisor")
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	r, err := Call(path, []string{"start", "nope"})
	if err != nil || r.Code != 5 {
		t.Errorf("got %+v, %v", r, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestCappedLog(t *testing.T) {
	dir := t.TempDir()
	l := &cappedLog{path: filepath.Join(dir, "x.log"), max: 10}
	for _, line := range []string{"12345\n", "6789\n", "abc\n"} {
		if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	for name, want := range map[string]string{"x.log": "6789\nabc\n", "x.log.1": "12345\n"} {
		if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	// A restart appends, and a log that cannot be written is no failure.
	again := &cappedLog{path: filepath.Join(dir, "x.log"), max: 100}
	_, _ = again.Write([]byte("more\n"))
	if got, _ := os.ReadFile(filepath.Join(dir, "x.log")); string(got) != "6789\nabc\nmore\n" {
		t.Errorf("after a restart: %q", got)
	}
	lost := &cappedLog{path: filepath.Join(dir, "no/such/dir"), max: 100}
	if n, err := lost.Write([]byte("x")); n != 1 || err != nil {
		t.Error(n, err)
	}
}

func TestValidate(t *testing.T) {
	for _, u := range []Unit{{}, {Name: "a/b", Argv: []string{"x"}}, {Name: "..", Argv: []string{"x"}}, {Name: "a"}} {
		if u.Validate() == nil {
			t.Errorf("%+v is valid", u)
		}
	}
}
