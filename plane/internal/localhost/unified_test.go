package localhost

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/plane/internal/sandbox/cgroup"
)

// TestUnifiedCgroups boots a host on cgroup v2, wherever the machine mounts it.
func TestUnifiedCgroups(t *testing.T) {
	m := newManager(t, fakeBundle(t))
	layout, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	if !layout.Unified {
		const hybrid = "/sys/fs/cgroup/unified"
		control := filepath.Join(hybrid, "cgroup.subtree_control")
		controllers, err := os.ReadFile(filepath.Join(hybrid, "cgroup.controllers"))
		if err != nil {
			t.Skipf("no cgroup2 mount on this machine: %v", err)
		}
		before := strings.Fields(readFile(t, control))
		layout = cgroup.Layout{Unified: true, Hierarchies: []cgroup.Hierarchy{{Mountpoint: hybrid, Controllers: strings.Fields(string(controllers))}}}
		t.Cleanup(func() {
			for _, c := range strings.Fields(readFile(t, control)) {
				if !strings.Contains(" "+strings.Join(before, " ")+" ", " "+c+" ") {
					_ = os.WriteFile(control, []byte("-"+c), 0)
				}
			}
		})
	}
	m.Cgroups = &layout
	host := bootHost(t, m, 1, sleeper())
	if got := mustOnHost(t, m, host, "stat", "-f", "-c", "%T", "/sys/fs/cgroup"); got != "cgroup2fs" {
		t.Errorf("/sys/fs/cgroup is %s", got)
	}
	if got := mustOnHost(t, m, host, "sh", "-c", "sed -n 's/^0:://p' /proc/1/cgroup /proc/self/cgroup"); got != "/init\n/init" {
		t.Errorf("processes are in %q", got)
	}
	if got := mustOnHost(t, m, host, "cat", "/sys/fs/cgroup/cgroup.procs"); got != "" {
		t.Errorf("processes in the root group: %s", got)
	}
	want := mustOnHost(t, m, host, "cat", "/sys/fs/cgroup/cgroup.controllers")
	if got := mustOnHost(t, m, host, "cat", "/sys/fs/cgroup/cgroup.subtree_control"); got != want {
		t.Errorf("controllers handed down: %q, want %q", got, want)
	}
	mustOnHost(t, m, host, "mkdir", "-p", "/sys/fs/cgroup/kubepods/burstable")
	if err := m.PowerCycle(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	if err := m.DestroyAll(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(layout.Hierarchies[0].Mountpoint, m.Name)); err == nil {
		t.Error("cgroups are left")
	}
}
