package localhost

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/unit"
)

// requireRoot skips a test that makes namespaces and control groups where that is
// not permitted; with SLIPWAY_REQUIRE_ROOT=1 it fails instead.
func requireRoot(t *testing.T) {
	t.Helper()
	level.Deep(t)
	var reasons []string
	for _, f := range Preflight(t.Context(), PreflightOptions{StateDir: t.TempDir(), Name: "planetest-preflight", Hosts: 1}) {
		if f.Severity == SeverityError {
			reasons = append(reasons, f.Message)
		}
	}
	if len(reasons) == 0 {
		return
	}
	message := "LOCAL HOSTS NOT TESTED: " + strings.Join(reasons, "; ")
	rights.Skip(t, message)
}

// buildSandbox builds the program under test once.
var buildSandbox = sync.OnceValues(func() (string, error) {
	return shared.Program(context.Background(), "github.com/slipway-dev/slipway/plane/cmd/slipway-sandbox")
})

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == escape {
		if err := answerEscapes(os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// instances numbers the instances of this run.
var instances atomic.Int32

// newManager is a manager of an instance of its own, which is gone when the test ends. It
// is named as test/live knows what is no trace of another plane.
func newManager(t *testing.T, bundle string) *Manager {
	t.Helper()
	requireRoot(t)
	sandbox, err := buildSandbox()
	if err != nil {
		t.Fatal(err)
	}
	m := &Manager{
		StateDir: t.TempDir(),
		Name:     fmt.Sprintf("planetest-%dx%d", os.Getpid(), instances.Add(1)),
		Bundle:   bundle,
		Sandbox:  sandbox,
	}
	t.Cleanup(func() {
		if t.Failed() {
			logTails(t, m)
		}
		if err := m.DestroyAll(context.Background(), true); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return m
}

// logTails shows the end of every log of every host.
func logTails(t *testing.T, m *Manager) {
	logs, _ := filepath.Glob(filepath.Join(m.hostsDir(), "*/var/log/*.log"))
	consoles, _ := filepath.Glob(filepath.Join(m.hostsDir(), "*/init.log"))
	for _, path := range append(logs, consoles...) {
		b, _ := os.ReadFile(path)
		t.Logf("%s:\n%s", path, b[max(0, len(b)-3000):])
	}
}

// fakeBundle is the smallest bundle that LoadBundle accepts.
func fakeBundle(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"bin", "cni", "kubernetes/v1.1.4", "kubernetes/v1.2.3", "store/io.containerd.metadata.v1.bolt"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{
		"bundle.json":               `{"kubernetes":[{"version":"v1.1.4","images":{"pause":"registry.k8s.io/pause:0"}},{"version":"v1.2.3","images":{"pause":"registry.k8s.io/pause:1"}}]}`,
		"kubernetes/v1.1.4/kubelet": "program",
		"kubernetes/v1.2.3/kubelet": "program",
		"cni/bridge":                "plugin",
		"store/blob":                "layer",
		"store/io.containerd.metadata.v1.bolt/meta.db": "database",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// sleeper is a service table that needs nothing of a bundle.
func sleeper() []unit.Unit {
	return []unit.Unit{
		{Name: "sleeper", Argv: []string{"/bin/sleep", "100000"}},
		{Name: "kubelet", Argv: []string{"/bin/sleep", "200000"}, ConditionPath: "/var/lib/kubelet/config.yaml"},
	}
}

// bootHost creates and boots the nth host.
func bootHost(t *testing.T, m *Manager, n int, units []unit.Unit) string {
	t.Helper()
	name := fmt.Sprintf("host-%d", n)
	ip, err := IPOf(n)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Create(t.Context(), Spec{Name: name, IP: ip, Units: units}); err != nil {
		t.Fatal(err)
	}
	if err := m.Boot(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// runOnHost runs a command and returns its trimmed outputs and exit code.
func runOnHost(t *testing.T, m *Manager, host string, argv ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code, err := m.Exec(t.Context(), host, argv, Stdio{Out: &o, Err: &e})
	if err != nil {
		t.Fatalf("exec %q on %s: %v", argv, host, err)
	}
	return strings.TrimSpace(o.String()), strings.TrimSpace(e.String()), code
}

// onHost returns the output and exit code of a command that may fail.
func onHost(t *testing.T, m *Manager, host string, argv ...string) (string, int) {
	t.Helper()
	out, _, code := runOnHost(t, m, host, argv...)
	return out, code
}

// mustOnHost fails the test unless the command succeeds.
func mustOnHost(t *testing.T, m *Manager, host string, argv ...string) string {
	t.Helper()
	out, errs, code := runOnHost(t, m, host, argv...)
	if code != 0 {
		t.Fatalf("%q on %s: exit code %d: %s\n%s", argv, host, code, out, errs)
	}
	return out
}

func hostOf(t *testing.T, m *Manager, name string) Host {
	t.Helper()
	h, err := m.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
