package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/sandbox/unit"
)

// stateDir is the init's own state on the disk of the host.
const stateDir = "/var/lib/slipway-host"

// BootIDFile is where a host finds the ID of its boot, as well as in the kernel's
// own /proc/sys/kernel/random/boot_id.
const BootIDFile = "/run/slipway/boot-id"

// bootSteps are done in this order, and then the services start.
var bootSteps = []struct {
	name string
	run  func(context.Context, Spec, Record) error
}{
	{"root", func(_ context.Context, s Spec, r Record) error { return buildRoot(s, r.BootID) }},
	{"cgroups", func(_ context.Context, s Spec, _ Record) error { return s.Cgroups.EnterLeaf() }},
	{"files", installFiles},
	{"hostname", setHostname},
	{"network", configureNetwork},
}

// Init is PID 1 of the host in dir. It returns when it was told to stop by SIGTERM
// and all services have ended; its own end then ends all that is left.
func Init(dir string) error {
	if os.Getpid() != 1 {
		return errors.New("init is PID 1 of a host and not meant to be called: use launch")
	}
	status := os.NewFile(StatusFD, "status")
	defer status.Close()
	unix.CloseOnExec(StatusFD)
	ctx, cancel := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer cancel()
	// Caught and dropped, not ignored: services would inherit that.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT)
	if err := waitForRelease(); err != nil {
		return err
	}
	supervisor, err := boot(ctx, dir, cancel)
	if err != nil {
		_, _ = fmt.Fprintf(status, "%s%v\n", StatusError, err)
		return err
	}
	_, _ = fmt.Fprintln(status, StatusReady)
	_ = status.Close()
	supervisor.Run(ctx)
	endAll(3 * time.Second)
	return nil
}

// boot readies the host and returns the supervisor of its services; shutdown ends ctx.
func boot(ctx context.Context, dir string, shutdown func()) (*unit.Supervisor, error) {
	unix.Umask(0o022)
	s, err := LoadSpec(dir)
	if err != nil {
		return nil, err
	}
	r, err := LoadRecord(dir)
	if err != nil {
		return nil, err
	}
	for _, step := range bootSteps {
		if err := step.run(ctx, s, r); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	// From here on children are reaped: no step above may start one.
	supervisor, err := unit.NewSupervisor(unit.Config{
		Units:     s.AllUnits(),
		Env:       []string{"PATH=" + searchPath, "HOME=/root"},
		LogDir:    "/var/log",
		StateDir:  stateDir,
		Processes: unit.NewProcesses(),
		Reboot: func() error {
			if err := requestReboot("/", r.BootID); err != nil {
				return err
			}
			shutdown()
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	socket, err := unit.Listen(unit.Socket)
	if err != nil {
		return nil, err
	}
	go func() { _ = supervisor.Serve(socket) }()
	return supervisor, nil
}

func installFiles(_ context.Context, s Spec, r Record) error {
	if err := applyFiles("/", filepath.Join(stateDir, "applied.json"), append(baseFiles(s), s.Files...)); err != nil {
		return err
	}
	return os.WriteFile(BootIDFile, []byte(r.BootID+"\n"), 0o644)
}

// setHostname takes the name from /etc/hostname, since it may have been changed on the host.
func setHostname(_ context.Context, s Spec, _ Record) error {
	b, err := os.ReadFile("/etc/hostname")
	if err != nil {
		return err
	}
	name := strings.TrimSpace(string(b))
	if name == "" {
		name = s.hostname()
	}
	return unix.Sethostname([]byte(name))
}

// endAll asks every process of the host to end and then makes it.
func endAll(patience time.Duration) {
	_ = syscall.Kill(-1, unix.SIGTERM)
	// kill(2): with no process left to signal but the init itself, ESRCH.
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if errors.Is(syscall.Kill(-1, 0), unix.ESRCH) {
			break
		}
	}
	_ = syscall.Kill(-1, unix.SIGKILL)
	unix.Sync()
}
