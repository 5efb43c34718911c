package localhost

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const nullSignal = unix.Signal(0)

func TestCreateValidates(t *testing.T) {
	m := &Manager{StateDir: t.TempDir(), Name: "test", Bundle: fakeBundle(t), Sandbox: "/sandbox"}
	ok := netip.MustParseAddr("10.88.0.11")
	if err := m.Create(t.Context(), Spec{Name: "host-1", IP: ok}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		spec Spec
		want string
	}{
		{"bad name", Spec{Name: "../x", IP: ok}, "DNS label"},
		{"foreign address", Spec{Name: "host-2", IP: netip.MustParseAddr("10.0.0.1")}, "not in 10.88.0.0/24"},
		{"address taken", Spec{Name: "host-2", IP: ok}, "belongs to host host-1"},
		{"unknown version", Spec{Name: "host-2", IP: netip.MustParseAddr("10.88.0.12"), KubernetesVersion: "v9"}, "no Kubernetes v9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := m.Create(t.Context(), c.spec); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestCreateKeepsIdentity(t *testing.T) {
	m := &Manager{StateDir: t.TempDir(), Name: "test", Bundle: fakeBundle(t), Sandbox: "/sandbox"}
	ids := map[string]bool{}
	for range 2 {
		if err := m.Create(t.Context(), Spec{Name: "host-1", IP: netip.MustParseAddr("10.88.0.11")}); err != nil {
			t.Fatal(err)
		}
		h, err := m.Get(t.Context(), "host-1")
		if err != nil {
			t.Fatal(err)
		}
		ids[h.MachineID] = true
	}
	if len(ids) != 1 {
		t.Errorf("machine IDs: %v", ids)
	}
}

func TestMissingBundleNamesTheRemedy(t *testing.T) {
	m := &Manager{StateDir: t.TempDir(), Name: "test", Bundle: t.TempDir(), Sandbox: "/sandbox"}
	err := m.Create(t.Context(), Spec{Name: "host-1", IP: netip.MustParseAddr("10.88.0.11")})
	if !errors.Is(err, ErrNoBundle) || !strings.Contains(err.Error(), "make bundle") {
		t.Errorf("got %v", err)
	}
	m.Bundle = fakeBundle(t)
	if err := os.RemoveAll(filepath.Join(m.Bundle, "store")); err != nil {
		t.Fatal(err)
	}
	err = m.Create(t.Context(), Spec{Name: "host-1", IP: netip.MustParseAddr("10.88.0.11")})
	if !errors.Is(err, ErrNoBundle) || !strings.Contains(err.Error(), "store is missing") {
		t.Errorf("got %v", err)
	}
}

func TestSeedStoreLinksLayersAndCopiesDatabases(t *testing.T) {
	b, err := LoadBundle(fakeBundle(t))
	if err != nil {
		t.Fatal(err)
	}
	layer := filepath.Join(b.Dir, "store/link")
	if err := os.Symlink("blob", layer); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(t.TempDir(), "var/lib/containerd")
	if err := b.seedStore(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	same := func(name string) bool {
		a, errA := os.Lstat(filepath.Join(b.Dir, "store", name))
		c, errC := os.Lstat(filepath.Join(store, name))
		if err := errors.Join(errA, errC); err != nil {
			t.Fatal(err)
		}
		return os.SameFile(a, c)
	}
	const db = "io.containerd.metadata.v1.bolt/meta.db"
	if !same("blob") || !same("link") {
		t.Error("a layer was copied")
	}
	if same(db) {
		t.Error("a database is shared with the bundle")
	}
}

// TestCreateFollowsNoLinkOfAHost: root of the machine makes disks in directories that hosts write to.
func TestCreateFollowsNoLinkOfAHost(t *testing.T) {
	const db = "var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db"
	for _, link := range []string{"var", "var/lib", "var/lib/containerd"} {
		t.Run(link, func(t *testing.T) {
			m := &Manager{StateDir: t.TempDir(), Name: "test", Bundle: fakeBundle(t), Sandbox: "/sandbox"}
			create := func() {
				t.Helper()
				if err := m.Create(t.Context(), Spec{Name: "host-1", IP: netip.MustParseAddr("10.88.0.11")}); err != nil {
					t.Fatal(err)
				}
			}
			create()
			disk, machine := m.Dir("host-1"), t.TempDir()
			kept := filepath.Join(machine, "lib/containerd/kept")
			if err := errors.Join(os.MkdirAll(filepath.Dir(kept), 0o755), os.WriteFile(kept, nil, 0o600), os.RemoveAll(filepath.Join(disk, link))); err != nil {
				t.Fatal(err)
			}
			to := map[string]string{"var": machine, "var/lib": machine + "/lib", "var/lib/containerd": machine + "/lib/containerd"}[link]
			if err := os.Symlink(to, filepath.Join(disk, link)); err != nil {
				t.Fatal(err)
			}
			check := func(when string) {
				t.Helper()
				if found, err := os.ReadDir(filepath.Dir(kept)); err != nil || len(found) != 1 {
					t.Errorf("%s: in a directory of the machine there is %v: %v", when, found, err)
				}
			}
			create()
			check("a host that is there")
			// A removal that was interrupted.
			if err := os.Remove(filepath.Join(disk, "spec.json")); err != nil {
				t.Fatal(err)
			}
			create()
			check("a disk that was to be removed")
			if _, err := os.Stat(filepath.Join(disk, db)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestIPOf(t *testing.T) {
	for n, want := range map[int]string{1: "10.88.0.11", 189: "10.88.0.199", 0: "", 190: ""} {
		ip, err := IPOf(n)
		if (err != nil) != (want == "") || (want != "" && ip.String() != want) {
			t.Errorf("IPOf(%d) = %s, %v; want %q", n, ip, err, want)
		}
	}
}

func TestUnknownHost(t *testing.T) {
	m := &Manager{StateDir: t.TempDir(), Name: "test"}
	for name, err := range map[string]error{
		"Boot":     m.Boot(t.Context(), "nope"),
		"PowerOff": m.PowerOff(t.Context(), "nope", false),
		"Cut":      m.Cut(t.Context(), "nope"),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := m.Destroy(t.Context(), "nope"); err != nil {
		t.Errorf("Destroy: %v", err)
	}
}

func TestLocksExclude(t *testing.T) {
	m := &Manager{StateDir: t.TempDir()}
	unlock, err := m.lockHost(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := m.lockAll(short); err == nil {
		t.Error("all hosts were locked while one was")
	}
	other, err := m.lockHost(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	unlock()
	all, err := m.lockAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all()
}

func TestPreflightNamesRemedies(t *testing.T) {
	if os.Geteuid() != 0 {
		f := Preflight(t.Context(), PreflightOptions{StateDir: t.TempDir(), Name: "test"})
		if len(f) != 1 || f[0].Code != CodeNotRoot {
			t.Errorf("without root: %+v", f)
		}
		return
	}
	got := map[Code]Finding{}
	for _, f := range Preflight(t.Context(), PreflightOptions{StateDir: filepath.Join(t.TempDir(), "not/yet"), Name: "test", Hosts: 100_000, ControlPlanes: 1}) {
		got[f.Code] = f
	}
	for code, remedy := range map[Code]string{CodeInotify: "sysctl -w fs.inotify.max_user_instances=", CodeMemory: "--hosts", CodeDisk: "--state-dir"} {
		if !strings.Contains(got[code].Remedy, remedy) || got[code].Message == "" {
			t.Errorf("%s: %+v", code, got[code])
		}
	}
}
