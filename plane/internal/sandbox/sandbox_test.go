package sandbox

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/plane/internal/sandbox/cgroup"
)

func testSpec(dir string) Spec {
	return Spec{
		Instance: "slipway", Name: "host-1", IP: netip.MustParseAddr("10.88.0.11"), Gateway: netip.MustParseAddr("10.88.0.1"),
		MachineID: strings.Repeat("0123456789abcdef", 2), Dir: dir, Bundle: "/bundle", Sandbox: "/bin/slipway-sandbox",
		KubernetesVersion: "v1.36.3", PauseImage: "registry.k8s.io/pause:3.10.2",
		Cgroups: cgroup.Layout{Hierarchies: []cgroup.Hierarchy{{Mountpoint: "/sys/fs/cgroup/cpu", Controllers: []string{"cpu", "cpuacct"}}}},
	}
}

func merged(string) bool { return true }

func TestMountPlan(t *testing.T) {
	s := testSpec("/state/hosts/host-1")
	plan := mountPlan(s, "boot", merged)
	find := func(path string) mountStep {
		t.Helper()
		i := slices.IndexFunc(plan, func(m mountStep) bool { return m.path == path })
		if i < 0 {
			t.Fatalf("no step for %s", path)
		}
		return plan[i]
	}
	if m := find("/etc"); m.data != "lowerdir=/etc,upperdir=/state/hosts/host-1/overlay/etc/upper,workdir=/state/hosts/host-1/overlay/etc/work" {
		t.Errorf("/etc: %+v", m)
	}
	if m := find(bundleMount); !m.readonly || m.source != "/bundle" {
		t.Errorf("bundle: %+v", m)
	}
	if m := find("/sys/fs/cgroup/cpu,cpuacct"); m.fstype != "cgroup" || m.data != "cpu,cpuacct" {
		t.Errorf("joint cgroup hierarchy: %+v", m)
	}
	if m := find("/sys/fs/cgroup/cpuacct"); m.op != opLink || m.source != "cpu,cpuacct" {
		t.Errorf("alias of it: %+v", m)
	}
	if m := find("/sys/class/dmi/id/product_uuid"); m.content != "01234567-89ab-cdef-0123-456789abcdef\n" || !m.optional {
		t.Errorf("product UUID: %+v", m)
	}
	if slices.ContainsFunc(plan, func(m mountStep) bool { return strings.HasSuffix(m.path, "slipway-agent") }) {
		t.Error("an agent that was not asked for")
	}
	// A step needs the file systems that others mount: nothing may come before what it lies on.
	for i, m := range plan {
		for _, later := range plan[i+1:] {
			if later.op == opMount || later.op == opBind {
				if m.path != later.path && strings.HasPrefix(m.path, later.path+"/") {
					t.Errorf("%s is hidden by %s, which is mounted later", m.path, later.path)
				}
			}
		}
	}
}

func TestMountPlanVariants(t *testing.T) {
	s := testSpec("/d")
	s.Agent = "/bin/slipway-agent"
	s.Cgroups = cgroup.Layout{Unified: true}
	plan := mountPlan(s, "boot", func(string) bool { return false })
	has := func(path string, ok func(mountStep) bool) bool {
		return slices.ContainsFunc(plan, func(m mountStep) bool { return m.path == path && ok(m) })
	}
	if !has("/sys/fs/cgroup", func(m mountStep) bool { return m.fstype == "cgroup2" }) || has("/sys/fs/cgroup", func(m mountStep) bool { return m.fstype == "tmpfs" }) {
		t.Error("cgroup2 is not mounted by itself")
	}
	if !has("/bin", func(m mountStep) bool { return m.op == opBind && m.readonly && m.optional }) {
		t.Error("/bin of a machine without merged /usr is not bound")
	}
	if !has(programMount+"/slipway-agent", func(m mountStep) bool { return m.source == s.Agent && m.readonly }) {
		t.Error("no agent")
	}
}

func TestSpecValidate(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"name":       func(s *Spec) { s.Name = "Host" },
		"hostname":   func(s *Spec) { s.Hostname = "a b" },
		"address":    func(s *Spec) { s.IP = netip.Addr{} },
		"machine ID": func(s *Spec) { s.MachineID = "short" },
		"directory":  func(s *Spec) { s.Dir = "relative" },
		"overlay":    func(s *Spec) { s.Dir = "/a:b" },
		"file":       func(s *Spec) { s.Files = []File{{Path: "/etc/../x"}} },
	} {
		s := testSpec("/d")
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&s)
		if s.Validate() == nil {
			t.Errorf("an invalid %s passes", name)
		}
	}
}

func TestSpecRoundTrip(t *testing.T) {
	s := testSpec(t.TempDir())
	s.Files = []File{{Path: "/etc/secret", Mode: 0o600, Content: []byte("x")}}
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(s.Dir, specFile)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("spec.json: %v, %v", st.Mode(), err)
	}
	got, err := LoadSpec(s.Dir)
	if err != nil || got.IP != s.IP || string(got.Files[0].Content) != "x" || got.Cgroups.Hierarchies[0].Mountpoint != s.Cgroups.Hierarchies[0].Mountpoint {
		t.Errorf("got %+v, %v", got, err)
	}
	if entries, _ := os.ReadDir(s.Dir); len(entries) != 1 {
		t.Errorf("temporary files are left: %v", entries)
	}
}

func TestLogPath(t *testing.T) {
	s := testSpec("/d")
	if p, err := s.LogPath("kubelet"); err != nil || p != "/var/log/kubelet.log" {
		t.Errorf("%s, %v", p, err)
	}
	if _, err := s.LogPath("../../etc/shadow"); err == nil || !strings.Contains(err.Error(), "containerd, kubelet, slipway-agent") {
		t.Errorf("unknown service: %v", err)
	}
}

func TestApplyFiles(t *testing.T) {
	root, memory := t.TempDir(), filepath.Join(t.TempDir(), "applied.json")
	files := []File{
		{Path: "/etc/a", Content: []byte("1")},
		{Path: "/etc/b", Content: []byte("1"), Mode: 0o600},
		{Path: "/bin/link", Target: "/opt/x"},
	}
	apply := func() {
		t.Helper()
		if err := applyFiles(root, memory, files); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	// A link that is there is replaced, not followed.
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "etc"), 0o755), os.Symlink(outside, filepath.Join(root, "etc/a"))); err != nil {
		t.Fatal(err)
	}
	apply()
	if _, err := os.Stat(outside); err == nil {
		t.Error("a link was followed")
	}
	if target, _ := os.Readlink(filepath.Join(root, "bin/link")); target != "/opt/x" {
		t.Errorf("link to %q", target)
	}
	if st, _ := os.Stat(filepath.Join(root, "etc/b")); st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", st.Mode())
	}
	for _, name := range []string{"etc/a", "etc/b"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("changed on the host"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files[1].Content = []byte("2")
	apply()
	if got := read("etc/a"); got != "changed on the host" {
		t.Errorf("an unchanged file was written again: %q", got)
	}
	if got := read("etc/b"); got != "2" {
		t.Errorf("a changed file was not written: %q", got)
	}
}

func TestBaseFiles(t *testing.T) {
	s := testSpec("/d")
	s.Hostname = "named"
	files := map[string]File{}
	for _, f := range baseFiles(s) {
		files[f.Path] = f
	}
	if got := string(files["/etc/containerd/config.toml"].Content); !strings.Contains(got, "sandbox = 'registry.k8s.io/pause:3.10.2'") || strings.Contains(got, "@") {
		t.Errorf("containerd configuration: %s", got)
	}
	if got := string(files["/etc/hosts"].Content); !strings.Contains(got, "10.88.0.11 named\n") {
		t.Errorf("hosts: %s", got)
	}
	if f := files["/usr/local/bin/kubelet"]; f.Target != "/opt/slipway/kubernetes/v1.36.3/kubelet" {
		t.Errorf("kubelet: %+v", f)
	}
	if f := files["/opt/slipway/kubernetes"]; f.Target != "/opt/slipway/bundle/kubernetes" {
		t.Errorf("versions: %+v", f)
	}
}
