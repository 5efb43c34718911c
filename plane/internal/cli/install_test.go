package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/service"
	"github.com/slipway-dev/slipway/plane/internal/service/fakesystemd"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
	"github.com/slipway-dev/slipway/plane/internal/up"
	"github.com/slipway-dev/slipway/test/clitest"
)

const (
	testPlane = "planetest-install"
	testUnit  = "slipway-plane-planetest-install.service"
)

// serviceTest is a machine with systemd, and a place for a plane whose port is taken: `up`
// and `install` get as far as that.
type serviceTest struct {
	*fakesystemd.Systemd
	t    *testing.T
	dir  string
	port string
}

func newServiceTest(t *testing.T) *serviceTest {
	t.Helper()
	if os.Geteuid() != 0 {
		rights.Skip(t, "needs root")
	}
	t.Setenv(envStateDir, "")
	t.Setenv(envBundle, "")
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Close() })
	dir, err := os.MkdirTemp("", "slipway") // short, for the sockets in it
	if err != nil {
		t.Fatal(err)
	}
	s := &serviceTest{Systemd: fakesystemd.New(t), t: t, dir: filepath.Join(dir, "s"), port: strconv.Itoa(busy.Addr().(*net.TCPAddr).Port)}
	t.Cleanup(func() {
		if inst, err := instance.Open(s.dir); err == nil {
			_ = inst.Disown()
		}
		_ = os.RemoveAll(dir)
	})
	return s
}

func (s *serviceTest) run(args ...string) (string, error) {
	s.t.Helper()
	return clitest.Run(s.t.Context(), rootOf(&global{services: s.Machine}), append(args, "--state-dir", s.dir)...)
}

// ask runs a command whose question is answered.
func (s *serviceTest) ask(answer string, args ...string) (string, error) {
	s.t.Helper()
	root := rootOf(&global{services: s.Machine})
	root.SetIn(strings.NewReader(answer + "\n"))
	return clitest.Run(s.t.Context(), root, append(args, "--state-dir", s.dir)...)
}

// plane makes the state directory, as an earlier `up` did.
func (s *serviceTest) plane() *instance.Instance {
	s.t.Helper()
	port, err := strconv.Atoi(s.port)
	if err != nil {
		s.t.Fatal(err)
	}
	inst, err := instance.Create(s.dir, instance.Config{Name: testPlane, APIPort: port, Bundle: "/nowhere"})
	if err != nil {
		s.t.Fatal(err)
	}
	return inst
}

func (s *serviceTest) unit() string {
	text, _ := os.ReadFile(filepath.Join(s.Machine.UnitDir, testUnit))
	return string(text)
}

func TestInstallAPlaneThatIsThere(t *testing.T) {
	s := newServiceTest(t)
	s.plane()
	t.Chdir(filepath.Dir(s.dir))
	if err := os.Mkdir("relative", 0o755); err != nil {
		t.Fatal(err)
	}
	var busy *up.PortBusyError
	out, err := s.run("install", "--bundle", "relative", "--audit-log=false")
	if !errors.As(err, &busy) || !strings.Contains(out, "Installed "+testUnit) {
		t.Fatalf("%v\n%s", err, out)
	}
	if calls := s.Calls(); !slices.Equal(calls, []string{"daemon-reload", "enable " + testUnit}) {
		t.Errorf("calls %q", calls)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if text := s.unit(); !strings.Contains(text, `ExecStart="`+self+`" serve --state-dir "`+s.dir+`"`) {
		t.Errorf("the unit is\n%s", text)
	}
	if inst, err := instance.Open(s.dir); err != nil || inst.Bundle != filepath.Join(filepath.Dir(s.dir), "relative") || !inst.NoAuditLog {
		t.Errorf("chosen: %+v, %v", inst, err)
	}
	if out, err := s.run("install"); !errors.As(err, &busy) || out != testUnit+" is installed as it is wanted.\n" || len(s.Calls()) > 0 {
		t.Errorf("a second time: %v\n%s", err, out)
	}
}

// Nothing stays of a plane that could not be made.
func TestInstallOfANewPlaneThatFails(t *testing.T) {
	s := newServiceTest(t)
	var busy *up.PortBusyError
	if out, err := s.run("install", "--name", testPlane, "--api-port", s.port); !errors.As(err, &busy) {
		t.Fatalf("%v\n%s", err, out)
	}
	if text := s.unit(); text != "" {
		t.Errorf("the unit is still there:\n%s", text)
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state directory is still there: %v", err)
	}
	foreign := filepath.Join(s.Machine.UnitDir, testUnit)
	if err := os.WriteFile(foreign, []byte("[Service]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var refused *service.ForeignUnitError
	if out, err := s.run("install", "--name", testPlane, "--api-port", s.port); !errors.As(err, &refused) {
		t.Errorf("a unit of somebody else: %v\n%s", err, out)
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) || s.unit() != "[Service]\n" {
		t.Errorf("%v, the unit is %q", err, s.unit())
	}
}

func TestInstallRefuses(t *testing.T) {
	s := newServiceTest(t)
	for _, c := range []struct{ args, want string }{
		{"--hosts=-1", "--hosts -1: want"},
		{"--timeout=-1s", "--timeout -1s: want"},
		{"--name=No", "--name"},
		{"--listen=http://x", "--listen"},
	} {
		for _, printed := range []string{"--print=false", "--print"} {
			if out, err := s.run("install", c.args, printed); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %s: %v\n%s", c.args, printed, err, out)
			}
		}
	}
	s.Machine.Booted = filepath.Join(s.dir, "none")
	for _, command := range []string{"install", "uninstall"} {
		if _, err := s.run(command); !errors.Is(err, service.ErrNoSystemd) {
			t.Errorf("%s without systemd: %v", command, err)
		}
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) || len(s.Calls()) > 0 {
		t.Errorf("something was made: %v", err)
	}
}

// systemd runs as root, at each boot, what is found there then.
func TestInstallRunsNothingOfOthers(t *testing.T) {
	for name, spoil := range map[string]func(s *serviceTest, bundle string) error{
		"the bundle of another user": func(_ *serviceTest, bundle string) error { return os.Chown(bundle, 65534, 65534) },
		"a program in the bundle": func(_ *serviceTest, bundle string) error {
			return os.WriteFile(filepath.Join(bundle, "kubelet"), nil, 0o777)
		},
		"a directory above": func(s *serviceTest, _ string) error { return os.Chown(filepath.Dir(s.dir), 65534, 65534) },
		"a program that the next boot removes": func(s *serviceTest, _ string) error {
			self, err := os.Executable()
			s.Machine.Emptied = []string{filepath.Dir(self)}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServiceTest(t)
			s.plane()
			bundle := filepath.Join(filepath.Dir(s.dir), "bundle")
			if err := errors.Join(os.Mkdir(bundle, 0o755), spoil(s, bundle), os.Chmod(bundle, 0o755)); err != nil {
				t.Fatal(err)
			}
			if name == "a program in the bundle" {
				if err := os.Chmod(filepath.Join(bundle, "kubelet"), 0o777); err != nil { // whatever the umask is
					t.Fatal(err)
				}
			}
			var open *statedir.ReplaceableError
			out, err := s.run("install", "--bundle", bundle)
			if !errors.As(err, &open) || s.unit() != "" || len(s.Calls()) > 0 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestInstallPrints(t *testing.T) {
	s := newServiceTest(t)
	out, err := s.run("install", "--print", "--name", "other", "--beside", "slipway")
	if err != nil || !strings.Contains(out, "plane other:") || !strings.Contains(out, "After=network-online.target slipway-plane-slipway.service\n") {
		t.Errorf("%v\n%s", err, out)
	}
	s.plane()
	if out, err = s.run("install", "--print"); err != nil || !strings.Contains(out, "plane "+testPlane+":") || !strings.Contains(out, "StateDir="+s.dir+"\n") {
		t.Errorf("of a plane that is there: %v\n%s", err, out)
	}
	if s.unit() != "" || len(s.Calls()) > 0 {
		t.Error("something was installed")
	}
}

// installed makes the plane a service that runs.
func (s *serviceTest) installed() {
	s.t.Helper()
	inst := s.plane()
	unit, err := unitOf(inst)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, _, err := s.Machine.Install(s.t.Context(), unit); err != nil {
		s.t.Fatal(err)
	}
	s.Write("state", "active running\n")
	s.Calls()
}

func TestStatusOfAService(t *testing.T) {
	s := newServiceTest(t)
	s.installed()
	if out, err := s.run("status"); err != nil || !strings.Contains(out, "service  "+testUnit+": active (running), starts with this machine\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := s.run("status", "-o", "json"); err != nil || !strings.Contains(out, `"service":"`+testUnit) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestDownOfAService(t *testing.T) {
	s := newServiceTest(t)
	s.installed()
	s.Write("fails-stop", "Access denied\n")
	if out, err := s.run("down"); err == nil || !strings.Contains(err.Error(), "Access denied") || !strings.Contains(err.Error(), "again") {
		t.Errorf("a service that does not stop: %v\n%s", err, out)
	}
	s.Remove("fails-stop")
	s.Calls()
	out, err := s.run("down")
	if err != nil || !strings.Contains(out, testUnit+": it starts again with the machine") || !strings.Contains(out, "uninstall") {
		t.Errorf("%v\n%s", err, out)
	}
	if calls := s.Calls(); !slices.Equal(calls, []string{"stop " + testUnit}) || s.unit() == "" {
		t.Errorf("calls %q, unit %q", calls, s.unit())
	}
	if _, err := s.ask("another", "down", "--purge"); err == nil || s.unit() == "" {
		t.Errorf("another name was typed, and the plane is gone: %v", err)
	}
	if out, err := s.ask(testPlane, "down", "--purge"); err != nil || strings.Contains(out, "starts again") {
		t.Errorf("%v\n%s", err, out)
	}
	if calls := s.Calls(); !slices.Equal(calls, []string{"disable --now " + testUnit, "daemon-reload"}) || s.unit() != "" {
		t.Errorf("calls %q, unit %q", calls, s.unit())
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state directory is still there: %v", err)
	}
}

func TestUninstall(t *testing.T) {
	s := newServiceTest(t)
	if out, err := s.run("uninstall"); err != nil || !strings.Contains(out, "Nothing to uninstall") {
		t.Errorf("%v\n%s", err, out)
	}
	s.installed()
	out, err := s.run("uninstall")
	if err != nil || !strings.Contains(out, "Removed "+testUnit) || !strings.Contains(out, "down --purge` removes all of it") {
		t.Errorf("%v\n%s", err, out)
	}
	if calls := s.Calls(); !slices.Equal(calls, []string{"disable --now " + testUnit, "daemon-reload"}) || s.unit() != "" {
		t.Errorf("calls %q, unit %q", calls, s.unit())
	}
	if _, err := instance.Open(s.dir); err != nil {
		t.Errorf("the plane is gone: %v", err)
	}
	// A directory that was removed by hand.
	s.installed()
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	if out, err := s.run("down"); err != nil || !strings.Contains(out, "uninstall") {
		t.Errorf("down without a plane: %v\n%s", err, out)
	}
	if out, err := s.run("uninstall"); err != nil || s.unit() != "" || strings.Contains(out, "Its data") {
		t.Errorf("without a plane: %v\n%s", err, out)
	}
}

// systemd starts the plane while `up` is at work, once that lets it in; no other command does.
func TestAcquireChosen(t *testing.T) {
	s := newServiceTest(t)
	g := &global{stateDir: s.dir}
	if _, _, err := acquireChosen(t.Context(), g); !errors.Is(err, instance.ErrNone) {
		t.Errorf("without a plane: %v", err)
	}
	inst := s.plane()
	_, lock, err := acquireChosen(t.Context(), g)
	if err != nil || lock.File() == nil || !inst.Owns() {
		t.Fatalf("the lock is not held: %v", err)
	}
	lock.Release()
	command, err := inst.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer command.Release()
	var locked *instance.LockedError
	if _, _, err := acquireChosen(t.Context(), g); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("another command is at work: %v", err)
	}
	if err := command.LetPlaneIn(); err != nil {
		t.Fatal(err)
	}
	if _, lock, err = acquireChosen(t.Context(), g); err != nil || lock.File() != nil {
		t.Errorf("not let in: %v", err)
	}
	if _, err := inst.Lock(); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("another command was let in: %v", err)
	}
}

// kube-apiserver tells the socket of systemd that all is ready when it is itself.
func TestReadinessIsToldByThePlaneAlone(t *testing.T) {
	for _, name := range []string{statedir.LockFDEnv, service.Env, notifySocket} {
		t.Setenv(name, "")
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := (starter{}).ready(); err != nil {
		t.Errorf("nobody asked: %v", err)
	}
	dir, err := os.MkdirTemp("", "slipway")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "notify")
	systemd, err := (&net.ListenConfig{}).ListenPacket(context.Background(), "unixgram", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	t.Setenv(notifySocket, socket)
	t.Setenv(service.Env, "yes")
	by, err := startedBy()
	if err != nil || !by.systemd || by.up {
		t.Fatalf("%+v, %v", by, err)
	}
	for _, name := range []string{notifySocket, service.Env} {
		if value, ok := os.LookupEnv(name); ok {
			t.Errorf("the programs of the plane get %s=%s", name, value)
		}
	}
	if err := by.ready(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 100)
	n, _, err := systemd.ReadFrom(said)
	if err != nil || string(said[:n]) != "READY=1" {
		t.Errorf("%v %q", err, said[:n])
	}
}
