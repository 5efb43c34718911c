package software

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

func TestVersionsSideBySide(t *testing.T) {
	all := bundles(t)
	h, before := installed(t, all, older, newer)
	for _, version := range []string{older, newer} {
		got, err := os.ReadFile(h.Root.Path("/opt/slipway/kubernetes/" + version + "/kubelet"))
		if err != nil || string(got) != "hyperkube "+version {
			t.Errorf("the kubelet of %s is %q: %v", version, got, err)
		}
	}
	runtime := func() string {
		got, err := durable.ReadAny(string(h.Root), "/usr/local/bin/containerd", 1<<10)
		if err != nil {
			t.Error(err)
		}
		return string(got)
	}
	if got := runtime(); got != "bin/containerd v2.4.2" {
		t.Errorf("the runtime is %q, want that of the version installed last", got)
	}
	stored, err := os.ReadDir(h.Root.Path(store))
	if err != nil || len(stored) != 5 {
		t.Errorf("%d components in the store, want 5: runc is shared; %v", len(stored), err)
	}
	if _, err := h.Uninstall(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	if got := runtime(); got != "bin/containerd v2.3.0" {
		t.Errorf("the runtime is %q, want that of the version which is left", got)
	}
	put(t, h.Root, "/var/lib/slipway/containerd/content", "an image")
	if _, err := h.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := differences(tree(t, h.Root), before); diff != "" {
		t.Errorf("not as it was:\n%s", diff)
	}
}

func TestInstallAgainWritesNothingButTheRecord(t *testing.T) {
	all := bundles(t)
	h, _ := installed(t, all, newer)
	record := h.Root.Path(recordPath)
	defer durable.Intercept(string(h.Root), func(effect durable.Effect, path string) error {
		if path != record && path != durable.Staged(record) {
			t.Errorf("%s %s", effect, path)
		}
		return nil
	})()
	if err := h.Install(t.Context(), all[newer]); err != nil {
		t.Fatal(err)
	}
}

// What the host had is refused, and still there as it was.
func TestForeign(t *testing.T) {
	all := bundles(t)
	for name, tt := range map[string]struct{ path, remedy string }{
		"a runtime in use":         {"/etc/systemd/system/multi-user.target.wants/containerd.service", "systemctl disable --now containerd.service"},
		"Docker":                   {"/etc/systemd/system/multi-user.target.wants/docker.service", "systemctl disable --now docker.service"},
		"a kubelet of a package":   {"/usr/lib/systemd/system/kubelet.service", "Remove the packages kubelet and kubeadm"},
		"a program of that name":   {"/usr/local/bin/containerd", "remove it if nobody needs it"},
		"a file of that name":      {"/etc/slipway/containerd.toml", "remove it if nobody needs it"},
		"a unit of that name":      {"/etc/systemd/system/slipway-containerd.service", "remove it if nobody needs it"},
		"a file for a directory":   {"/opt/slipway", "remove it if nobody needs it"},
		"a directory for a link":   {"/usr/local/bin/containerd/file", "remove it if nobody needs it"},
		"a file for the state":     {"/var/lib/slipway/containerd", "remove it if nobody needs it"},
		"a file for a component's": {"/opt/slipway/store", "remove it if nobody needs it"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &Host{Root: hostRoot(t)}
			put(t, h.Root, tt.path, "of somebody else")
			before := tree(t, h.Root)
			err := h.Install(t.Context(), all[newer])
			if reason(err) != ReasonForeign || !strings.Contains(err.Error(), tt.remedy) {
				t.Errorf("want %s with %q, got %v", ReasonForeign, tt.remedy, err)
			}
			if diff := differences(tree(t, h.Root), before); diff != "" {
				t.Errorf("changed:\n%s", diff)
			}
		})
	}
}

// A runtime that is there and not in use, and whatever the host has of its own that is
// the same as the bundle's, are in nobody's way, and stay.
func TestTheHostsOwnStays(t *testing.T) {
	all := bundles(t)
	h := &Host{Root: hostRoot(t)}
	put(t, h.Root, "/usr/lib/systemd/system/containerd.service", "[Unit]\n")
	put(t, h.Root, "/usr/bin/containerd", "1.6.20")
	put(t, h.Root, "/etc/slipway/containerd.toml", "# v2.4.2")
	put(t, h.Root, "/opt/slipway/kubernetes/v1.30.0/kubelet", "by hand")
	put(t, h.Root, "/var/lib/slipway/containerd/content", "an image")
	before := tree(t, h.Root)
	if err := h.Install(t.Context(), all[newer]); err != nil {
		t.Fatal(err)
	}
	result, err := h.Uninstall(t.Context())
	if err != nil || len(result.Kept) > 0 {
		t.Errorf("kept %q: %v", result.Kept, err)
	}
	if diff := differences(tree(t, h.Root), before); diff != "" {
		t.Errorf("not as it was:\n%s", diff)
	}
}

func TestWhatSomebodyChangedStays(t *testing.T) {
	all := bundles(t)
	h, before := installed(t, all, older)
	const path = "/etc/slipway/containerd.toml"
	put(t, h.Root, path, "edited")
	put(t, h.Root, "/etc/slipway/agent.yaml", "namespace: default\n")
	put(t, h.Root, "/etc/cni/net.d/10-flannel.conflist", "{}")
	if err := h.Install(t.Context(), all[newer]); reason(err) != ReasonChanged || !strings.Contains(err.Error(), path) {
		t.Errorf("want %s for %s, got %v", ReasonChanged, path, err)
	}
	result, err := h.Uninstall(t.Context())
	if err != nil || !slices.Equal(result.Kept, []string{path, "/etc/slipway", "/etc/cni/net.d", "/etc/cni"}) {
		t.Errorf("kept %q: %v", result.Kept, err)
	}
	after := tree(t, h.Root)
	for _, kept := range []string{path, "/etc/slipway", "/etc/slipway/agent.yaml", "/etc/cni", "/etc/cni/net.d", "/etc/cni/net.d/10-flannel.conflist"} {
		if after[kept] == "" {
			t.Errorf("%s is gone", kept)
		}
		delete(after, kept)
	}
	if diff := differences(after, before); diff != "" {
		t.Errorf("not as it was:\n%s", diff)
	}
}

func TestDamageIsMended(t *testing.T) {
	all := bundles(t)
	h, _ := installed(t, all, newer)
	want := tree(t, h.Root)
	for _, c := range all[newer].Components {
		put(t, h.Root, storePath(c)+"/"+c.Files[0].Path, "damaged")
		if err := h.Install(t.Context(), all[newer]); err != nil {
			t.Fatal(err)
		}
		if diff := differences(tree(t, h.Root), want); diff != "" {
			t.Errorf("%s was not mended:\n%s", c.Name, diff)
		}
	}
}

// A bundle that turns out to be damaged in mid install leaves nothing that runs, and the
// next try with a good one gets there.
func TestDamagedLayer(t *testing.T) {
	dir, all := layout(t, "amd64")
	b := all[newer]
	last := b.Components[len(b.Components)-1]
	layer := filepath.Join(dir, "blobs", "sha256", last.Layer.Encoded())
	whole, err := os.ReadFile(layer)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(layer, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	h := &Host{Root: hostRoot(t)}
	before := tree(t, h.Root)
	var bad *hostbundle.Error
	if err := h.Install(t.Context(), b); !errors.As(err, &bad) || bad.Reason != hostbundle.ReasonCorrupt {
		t.Fatalf("want %s, got %v", hostbundle.ReasonCorrupt, err)
	}
	for path := range tree(t, h.Root) {
		if strings.Contains(path, last.Layer.Encoded()) || strings.HasPrefix(path, "/usr/local/bin/containerd") {
			t.Errorf("%s is there", path)
		}
	}
	interrupted := clone(t, h)
	if _, err := interrupted.Uninstall(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	if diff := differences(tree(t, interrupted.Root), before); diff != "" {
		t.Errorf("not as it was:\n%s", diff)
	}
	if err := os.WriteFile(layer, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Install(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if releases, err := h.Installed(); err != nil || len(releases) != 1 || releases[0].State != StateInstalled {
		t.Errorf("installed %v: %v", releases, err)
	}
}

// unasked is a source that nobody may ask.
type unasked struct {
	copied
	t *testing.T
}

func (u unasked) Stage(context.Context, hostbundle.Staging, string, string) error {
	u.t.Error("the source was asked")
	return nil
}

func TestFullDisk(t *testing.T) {
	all := bundles(t)
	t.Run("seen before", func(t *testing.T) {
		h := &Host{Root: hostRoot(t)}
		if err := unix.Mount("slipway", h.Root.Path("/opt"), "tmpfs", 0, "size=1m"); err != nil {
			rights.Skip(t, "mounting a small disk needs root:", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(h.Root.Path("/opt"), unix.MNT_DETACH) })
		before := tree(t, h.Root)
		if err := h.Install(t.Context(), all[newer]); reason(err) != ReasonNoSpace || !strings.Contains(err.Error(), "make room") {
			t.Errorf("want %s, got %v", ReasonNoSpace, err)
		}
		if diff := differences(tree(t, h.Root), before); diff != "" {
			t.Errorf("changed:\n%s", diff)
		}
	})
	t.Run("before a source is asked", func(t *testing.T) {
		h := &Host{Root: hostRoot(t)}
		if err := unix.Mount("slipway", h.Root.Path("/var/lib"), "tmpfs", 0, "size=1m"); err != nil {
			rights.Skip(t, "mounting a small disk needs root:", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(h.Root.Path("/var/lib"), unix.MNT_DETACH) })
		if _, err := h.Fetch(t.Context(), Wanted{Version: newer}, hostbundle.PublicKeys{}, unasked{t: t}); reason(err) != ReasonNoSpace {
			t.Errorf("want %s, got %v", ReasonNoSpace, err)
		}
	})
	t.Run("while it is fetched", func(t *testing.T) {
		dir, _ := layout(t, runtime.GOARCH)
		h := &Host{Root: hostRoot(t)}
		defer durable.Intercept(h.Root.Path(staging), func(effect durable.Effect, path string) error {
			if effect == durable.Sync {
				return &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
			}
			return nil
		})()
		if _, err := h.Fetch(t.Context(), Wanted{Version: newer}, keysOf(t, dir), sourceOf(t, dir)); reason(err) != ReasonNoSpace {
			t.Errorf("want %s, got %v", ReasonNoSpace, err)
		}
		if _, err := os.Stat(h.Root.Path(staging)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what was fetched still takes room: %v", err)
		}
	})
	t.Run("in mid write", func(t *testing.T) {
		h := &Host{Root: hostRoot(t)}
		restore := durable.Intercept(h.Root.Path(store), func(effect durable.Effect, path string) error {
			if effect == durable.Sync {
				return &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
			}
			return nil
		})
		if err := h.Install(t.Context(), all[newer]); reason(err) != ReasonNoSpace {
			t.Errorf("want %s, got %v", ReasonNoSpace, err)
		}
		left, err := os.ReadDir(h.Root.Path(store))
		if err != nil || len(left) > 0 {
			t.Errorf("%v still takes room: %v", left, err)
		}
		restore()
		if err := h.Install(t.Context(), all[newer]); err != nil {
			t.Error(err)
		}
	})
}

func TestNodeIsNotPulledFromUnderItsCluster(t *testing.T) {
	all := bundles(t)
	h, _ := installed(t, all, older, newer)
	if err := os.Symlink("/opt/slipway/kubernetes/"+newer+"/kubelet", h.Root.Path("/usr/local/bin/kubelet")); err != nil {
		t.Fatal(err)
	}
	put(t, h.Root, "/etc/kubernetes/kubelet.conf", "")
	for _, versions := range [][]string{{newer}, {older, newer}, nil} {
		before := tree(t, h.Root)
		if _, err := h.Uninstall(t.Context(), versions...); reason(err) != ReasonInUse {
			t.Errorf("%q: want %s, got %v", versions, ReasonInUse, err)
		}
		if diff := differences(tree(t, h.Root), before); diff != "" {
			t.Errorf("changed:\n%s", diff)
		}
	}
	if _, err := h.Uninstall(t.Context(), older); err != nil {
		t.Errorf("nothing runs by %s: %v", older, err)
	}
	if err := os.Remove(h.Root.Path("/usr/local/bin/kubelet")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Uninstall(t.Context()); reason(err) != ReasonInUse {
		t.Errorf("the host is a node: want %s, got %v", ReasonInUse, err)
	}
}

func TestOneAtATime(t *testing.T) {
	all := bundles(t)
	h := &Host{Root: hostRoot(t)}
	defer durable.Intercept(string(h.Root), func(durable.Effect, string) error {
		if _, err := (&Host{Root: h.Root}).Uninstall(t.Context()); reason(err) != ReasonBusy {
			t.Errorf("want %s, got %v", ReasonBusy, err)
		}
		return nil
	})()
	if err := h.Install(t.Context(), all[newer]); err != nil {
		t.Fatal(err)
	}
}

func TestInterrupted(t *testing.T) {
	all := bundles(t)
	h := &Host{Root: hostRoot(t)}
	ctx, cancel := context.WithCancel(t.Context())
	h.Progress = func(done, _ int, _ string) {
		if done == 2 {
			cancel()
		}
	}
	if err := h.Install(ctx, all[newer]); !errors.Is(err, context.Canceled) {
		t.Fatalf("want the context's error, got %v", err)
	}
	if releases, err := h.Installed(); err != nil || len(releases) != 1 || releases[0].State != StateInstalling {
		t.Errorf("installed %v: %v", releases, err)
	}
}

func TestNotInstalled(t *testing.T) {
	h := &Host{Root: hostRoot(t)}
	before := tree(t, h.Root)
	if _, err := h.Uninstall(t.Context(), newer); reason(err) != ReasonNotInstalled {
		t.Errorf("want %s, got %v", ReasonNotInstalled, err)
	}
	if _, err := h.Uninstall(t.Context()); err != nil {
		t.Errorf("all of nothing: %v", err)
	}
	if diff := differences(tree(t, h.Root), before); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
	if err := (&Host{Root: "/nowhere"}).Install(t.Context(), bundles(t)[newer]); err == nil {
		t.Error("no error for a root that is none")
	}
}

// A link from /usr/local leads to the store whatever /usr/local is a link to; those of /opt/slipway do
// wherever the root of the host is mounted.
func TestTargets(t *testing.T) {
	components := map[string]hostbundle.Component{"a": {Name: "a", Layer: "sha256:aa"}}
	for path, want := range map[string]string{
		"/usr/local/bin/a":         "/opt/slipway/store/aa/bin/a",
		"/opt/slipway/images/a":    "../store/aa/bin/a",
		"/opt/cni/bin/a":           "/opt/slipway/store/aa/bin/a",
		"/opt/slipway/store/other": "aa/bin/a",
	} {
		if got := target(hostbundle.Link{Path: path, Component: "a", Target: "bin/a"}, components); got != want {
			t.Errorf("%s leads to %s, want %s", path, got, want)
		}
	}
}
