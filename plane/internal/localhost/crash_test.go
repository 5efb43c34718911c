package localhost

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/cgroup"
)

// bootElsewhere boots host-1 in a process of its own, which then waits to be killed.
func bootElsewhere(t *testing.T, m *Manager) (cmd *exec.Cmd, booted <-chan struct{}) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^TestHelperBoot$")
	cmd.Env = append(os.Environ(), "SLIPWAY_TEST_BOOT="+m.StateDir, "SLIPWAY_TEST_NAME="+m.Name, "SLIPWAY_TEST_BUNDLE="+m.Bundle, "SLIPWAY_TEST_SANDBOX="+m.Sandbox)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "BOOTED"; {
			continue
		}
	}()
	return cmd, done
}

// TestHelperBoot is the process of bootElsewhere.
func TestHelperBoot(t *testing.T) {
	dir := os.Getenv("SLIPWAY_TEST_BOOT")
	if dir == "" {
		t.Skip("not a test, but a process that others start")
	}
	m := &Manager{StateDir: dir, Name: os.Getenv("SLIPWAY_TEST_NAME"), Bundle: os.Getenv("SLIPWAY_TEST_BUNDLE"), Sandbox: os.Getenv("SLIPWAY_TEST_SANDBOX")}
	bootHost(t, m, 1, sleeper())
	fmt.Println("BOOTED")
	time.Sleep(time.Minute)
}

func TestHostOutlivesItsManager(t *testing.T) {
	m := newManager(t, fakeBundle(t))
	cmd, booted := bootElsewhere(t, m)
	<-booted
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if h := hostOf(t, m, "host-1"); h.State != StateRunning {
		t.Fatalf("host is %+v", h)
	}
	mustOnHost(t, m, "host-1", "true")
	if err := m.Boot(t.Context(), "host-1"); err != nil {
		t.Errorf("boot a host that is on: %v", err)
	}
}

// TestBootSurvivesCrashes kills the process that creates and boots a host at ever
// later moments. Each time another one must be able to go on from there.
func TestBootSurvivesCrashes(t *testing.T) {
	m := newManager(t, fakeBundle(t))
	finished := false
	for delay := time.Duration(0); !finished; delay += 4 * time.Millisecond {
		cmd, booted := bootElsewhere(t, m)
		select {
		case <-booted:
			finished = true
		case <-time.After(delay):
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		host := bootHost(t, m, 1, sleeper())
		if got := mustOnHost(t, m, host, "systemctl", "is-active", "sleeper"); got != "active" {
			t.Fatalf("killed after %s: sleeper is %s", delay, got)
		}
		if err := m.DestroyAll(t.Context(), true); err != nil {
			t.Fatalf("killed after %s: %v", delay, err)
		}
		if found := traces(t, m); len(found) > 0 {
			t.Fatalf("killed after %s, left behind: %s", delay, strings.Join(found, "\n"))
		}
	}
}

func TestStaleRecordIsNoHost(t *testing.T) {
	m := newManager(t, fakeBundle(t))
	host := bootHost(t, m, 1, sleeper())
	pid := hostOf(t, m, host).PID
	if err := m.PowerOff(t.Context(), host, false); err != nil {
		t.Fatal(err)
	}
	// As if the number had been given to another process, here a bystander of ours.
	bystander := exec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	record := filepath.Join(m.Dir(host), "init.json")
	stale := strings.Replace(readFile(t, record), fmt.Sprintf(`"pid": %d`, pid), fmt.Sprintf(`"pid": %d`, bystander.Process.Pid), 1)
	if err := os.WriteFile(record, []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	if h := hostOf(t, m, host); h.State != StateOff {
		t.Errorf("host is %+v", h)
	}
	if err := m.PowerOff(t.Context(), host, false); err != nil {
		t.Error(err)
	}
	if err := bystander.Process.Signal(os.Signal(nullSignal)); err != nil {
		t.Errorf("the bystander was killed: %v", err)
	}
	if err := m.Boot(t.Context(), host); err != nil {
		t.Errorf("boot after a restart of the machine: %v", err)
	}
}

func TestBootReportsWhyItFailed(t *testing.T) {
	m := newManager(t, fakeBundle(t))
	host := bootHost(t, m, 1, sleeper())
	if err := m.PowerOff(t.Context(), host, false); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(m.Bundle, "cni")); err != nil {
		t.Fatal(err)
	}
	err := m.Boot(t.Context(), host)
	if err == nil || !strings.Contains(err.Error(), "/opt/cni/bin") {
		t.Errorf("boot without CNI plugins: %v", err)
	}
	if h := hostOf(t, m, host); h.State != StateOff {
		t.Errorf("host is %+v after a failed boot", h)
	}
}

// traces are all that an instance may leave on a machine.
func traces(t *testing.T, m *Manager) []string {
	t.Helper()
	var found []string
	layout, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range layout.Hierarchies {
		if _, err := os.Stat(filepath.Join(h.Mountpoint, m.Name)); err == nil {
			found = append(found, "cgroup "+h.Mountpoint+"/"+m.Name)
		}
	}
	if _, err := os.Stat(network.Path(m.Name)); err == nil {
		found = append(found, "network namespace "+network.Path(m.Name))
	}
	for _, line := range strings.Split(readFile(t, "/proc/self/mountinfo"), "\n") {
		if strings.Contains(line, m.Name) || strings.Contains(line, m.StateDir) {
			found = append(found, "mount "+line)
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range processes {
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), m.StateDir) {
			found = append(found, "process "+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return found
}

func TestDestroyAllLeavesNothing(t *testing.T) {
	m := newManager(t, fakeBundle(t))
	mounts := readFile(t, "/proc/self/mountinfo")
	for n := 1; n <= 3; n++ {
		bootHost(t, m, n, sleeper())
	}
	pid := hostOf(t, m, "host-1").PID
	// A command that is still running on a host, and a host whose record is lost.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd, err := m.Command(ctx, "host-1", "sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(m.Dir("host-2"), "init.json")); err != nil {
		t.Fatal(err)
	}
	if len(traces(t, m)) == 0 {
		t.Fatal("no traces of running hosts: the test looks for the wrong things")
	}
	start := time.Now()
	if err := m.DestroyAll(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	t.Logf("three hosts destroyed in %s", time.Since(start))
	_ = cmd.Wait()
	if found := traces(t, m); len(found) > 0 {
		t.Errorf("left behind: %s", strings.Join(found, "\n"))
	}
	if got := readFile(t, "/proc/self/mountinfo"); got != mounts {
		t.Errorf("mounts changed from\n%s\nto\n%s", mounts, got)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid)); err == nil {
		t.Error("the init of host-1 is still there")
	}
	// The disks are kept: a second `up` goes on.
	if err := m.Boot(t.Context(), "host-1"); err != nil {
		t.Error(err)
	}
	if err := m.DestroyAll(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(m.StateDir); err != nil || len(entries) > 0 {
		t.Errorf("the state directory holds %v, %v", entries, err)
	}
}
