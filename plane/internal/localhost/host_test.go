package localhost

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/sandbox"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/unit"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func TestHostIsIsolated(t *testing.T) {
	m := newManager(t, fakeBundle(t))
	machine := []string{"/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/panic", "/proc/sys/kernel/hostname", "/proc/sys/net/ipv4/ip_forward"}
	before := map[string]string{}
	for _, path := range machine {
		before[path] = readFile(t, path)
	}
	host := bootHost(t, m, 1, sleeper())
	h := hostOf(t, m, host)
	if h.State != StateRunning || h.PID == 0 {
		t.Fatalf("host is %+v", h)
	}
	for _, ns := range []string{"mnt", "pid", "uts", "ipc", "net", "cgroup"} {
		ours, _ := os.Readlink("/proc/self/ns/" + ns)
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", h.PID, ns))
		if err != nil || ours == theirs {
			t.Errorf("%s namespace: machine %s, host %s, %v", ns, ours, theirs, err)
		}
	}
	mustOnHost(t, m, host, "sh", "-c", "echo 1 > /proc/sys/vm/overcommit_memory; echo 77 > /proc/sys/kernel/panic; hostname other; "+
		"echo x > /etc/slipway-test-file; echo x > /usr/slipway-test-file")
	if got := mustOnHost(t, m, host, "cat", "/proc/sys/kernel/panic"); got != "77" {
		t.Errorf("the host cannot change its own kernel.panic: %s", got)
	}
	for path, want := range before {
		if got := readFile(t, path); got != want {
			t.Errorf("%s of the machine changed from %s to %s", path, want, got)
		}
	}
	for _, path := range []string{"/etc/slipway-test-file", "/usr/slipway-test-file"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s reached the machine", path)
			_ = os.Remove(path)
		}
	}
	if got := mustOnHost(t, m, host, "cat", "/proc/sys/net/ipv4/ip_forward"); got != "1" {
		t.Errorf("ip_forward on the host is %s", got)
	}
	if out, code := onHost(t, m, host, "ls", "/etc/kubernetes"); code != 0 || out != "manifests" {
		t.Errorf("/etc/kubernetes: %q, exit code %d", out, code)
	}
	mounts := readFile(t, "/proc/self/mountinfo")
	if strings.Contains(mounts, m.StateDir) {
		t.Errorf("a mount of the host is in the machine's namespace:\n%s", mounts)
	}
}

func TestSystemctlOnHost(t *testing.T) {
	m := newManager(t, fakeBundle(t))
	host := bootHost(t, m, 1, sleeper())
	for _, c := range []struct {
		args []string
		code int
		out  string
	}{
		{[]string{"daemon-reload"}, 0, ""},
		{[]string{"is-active", "sleeper"}, 0, "active"},
		{[]string{"is-active", "--quiet", "sleeper.service"}, 0, ""},
		{[]string{"is-enabled", "sleeper"}, 0, "enabled"},
		{[]string{"is-active", "kubelet"}, 3, "activating"},
		{[]string{"start", "kubelet"}, 0, ""},
		{[]string{"is-active", "firewalld"}, 3, "inactive"},
		{[]string{"is-enabled", "firewalld"}, 1, ""},
		{[]string{"status", "firewalld"}, 4, ""},
		{[]string{"start", "firewalld"}, 5, ""},
		{[]string{"restart", "firewalld"}, 5, ""},
		{[]string{"stop", "firewalld"}, 5, ""},
		{[]string{"stop", "sleeper"}, 0, ""},
		{[]string{"is-active", "sleeper"}, 3, "inactive"},
		{[]string{"start", "sleeper"}, 0, ""},
		{[]string{"disable", "--now", "sleeper"}, 0, ""},
		{[]string{"is-enabled", "sleeper"}, 1, "disabled"},
	} {
		if out, code := onHost(t, m, host, append([]string{"systemctl"}, c.args...)...); code != c.code || out != c.out {
			t.Errorf("systemctl %q: %q, exit code %d; want %q, %d", c.args, out, code, c.out, c.code)
		}
	}
	mustOnHost(t, m, host, "touch", "/var/lib/kubelet/config.yaml")
	mustOnHost(t, m, host, "/usr/bin/systemctl", "restart", "kubelet")
	poll.True(t, "kubelet is active", func() bool {
		_, code := onHost(t, m, host, "systemctl", "is-active", "kubelet")
		return code == 0
	})
	mustOnHost(t, m, host, "sh", "-c", `pid=$(systemctl status kubelet | sed -n 's/.*Main PID: //p'); kill -9 $pid; while [ -d /proc/$pid ]; do sleep 0.01; done`)
	poll.True(t, "a killed unit is started again", func() bool {
		_, code := onHost(t, m, host, "systemctl", "is-active", "kubelet")
		return code == 0
	})
	if err := m.PowerCycle(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	if out, _ := onHost(t, m, host, "systemctl", "is-active", "sleeper"); out != "inactive" {
		t.Errorf("a disabled unit is %s after a power cycle", out)
	}
}

func TestPowerCycleKeepsTheDisk(t *testing.T) {
	m := newManager(t, fakeBundle(t))
	ip, _ := IPOf(1)
	spec := Spec{Name: "host-1", IP: ip, Units: sleeper(), Files: []sandbox.File{
		{Path: "/etc/slipway/agent.yaml", Mode: 0o600, Content: []byte("one")},
		{Path: "/etc/other", Content: []byte("one")},
	}}
	boot := func() {
		t.Helper()
		if err := errors.Join(m.Create(t.Context(), spec), m.Boot(t.Context(), "host-1")); err != nil {
			t.Fatal(err)
		}
	}
	boot()
	bootID := mustOnHost(t, m, "host-1", "cat", "/proc/sys/kernel/random/boot_id")
	if got := mustOnHost(t, m, "host-1", "cat", sandbox.BootIDFile); got != bootID || got != hostOf(t, m, "host-1").BootID {
		t.Errorf("boot IDs differ: %s, %s", bootID, got)
	}
	if bootID == readFile(t, "/proc/sys/kernel/random/boot_id") {
		t.Error("the host has the boot ID of the machine")
	}
	machineID := mustOnHost(t, m, "host-1", "cat", "/etc/machine-id")
	if got := mustOnHost(t, m, "host-1", "stat", "-c", "%a", "/etc/slipway/agent.yaml"); got != "600" {
		t.Errorf("mode of a file is %s", got)
	}
	mustOnHost(t, m, "host-1", "sh", "-c", "echo kept > /var/lib/kept; echo two > /etc/slipway/agent.yaml; echo two > /etc/other; echo gone > /run/gone; sync")
	spec.Files[1].Content = []byte("three")
	if err := m.PowerOff(t.Context(), "host-1", false); err != nil {
		t.Fatal(err)
	}
	if h := hostOf(t, m, "host-1"); h.State != StateOff {
		t.Fatalf("host is %+v", h)
	}
	boot()
	for path, want := range map[string]string{
		"/var/lib/kept":           "kept",
		"/etc/machine-id":         machineID,
		"/etc/slipway/agent.yaml": "two",   // changed on the host, not in the spec
		"/etc/other":              "three", // changed in the spec since
	} {
		if got := mustOnHost(t, m, "host-1", "cat", path); got != want {
			t.Errorf("%s is %q after a power cycle, want %q", path, got, want)
		}
	}
	if _, code := onHost(t, m, "host-1", "test", "-e", "/run/gone"); code == 0 {
		t.Error("/run survived a power cycle")
	}
	if got := mustOnHost(t, m, "host-1", "cat", "/proc/sys/kernel/random/boot_id"); got == bootID {
		t.Error("the boot ID is the same after a power cycle")
	}
}

func TestGracefulPowerOffStopsUnits(t *testing.T) {
	m := newManager(t, fakeBundle(t))
	units := []unit.Unit{{Name: "writer", Argv: []string{"/bin/sh", "-c", "trap 'echo bye > /var/lib/bye; exit 0' TERM; touch /run/trapped; while :; do sleep 0.05; done"}}}
	host := bootHost(t, m, 1, units)
	poll.True(t, "the unit is running", func() bool {
		_, code := onHost(t, m, host, "test", "-e", "/run/trapped")
		return code == 0
	})
	if err := m.PowerOff(t.Context(), host, true); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, filepath.Join(m.Dir(host), "var/lib/bye")); got != "bye" {
		t.Errorf("the unit left %q", got)
	}
}

func TestCutAndHeal(t *testing.T) {
	m := newManager(t, fakeBundle(t))
	a, b := bootHost(t, m, 1, sleeper()), bootHost(t, m, 2, sleeper())
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", hostOf(t, m, b).PID))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	address := net.JoinHostPort(hostOf(t, m, b).IP.String(), "8080")
	l, err := network.ListenIn(t.Context(), ns, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_ = c.Close()
		}
	}()
	connects := func() bool {
		_, code := onHost(t, m, a, "timeout", "0.5", "bash", "-c", "exec 3<>/dev/tcp/"+strings.Replace(address, ":", "/", 1))
		return code == 0
	}
	poll.True(t, "host-1 reaches host-2", connects)
	if c, err := network.DialContext(t.Context(), m.Name, "tcp", address); err != nil {
		t.Errorf("the plane does not reach host-2: %v", err)
	} else {
		_ = c.Close()
	}
	if err := m.Cut(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if h := hostOf(t, m, b); h.State != StateCut || !h.Cut {
		t.Errorf("host-2 is %+v", h)
	}
	if connects() {
		t.Error("host-1 reaches host-2 after a cut")
	}
	if err := m.PowerCycle(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := m.Heal(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "host-1 reaches host-2 after it was healed", connects)
	if err := errors.Join(m.Cut(t.Context(), b), m.PowerCycle(t.Context(), b)); err != nil {
		t.Fatal(err)
	}
	if h := hostOf(t, m, b); h.State != StateCut {
		t.Errorf("a cut host is %s after a power cycle", h.State)
	}
}
