package software

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/test/fakehost/bundlesource"
)

const (
	older = "v1.35.4"
	newer = "v1.36.3"
)

// bundles of both versions: they share one component, and differ in the runtime and its
// configuration.
func bundles(t *testing.T) map[string]*hostbundle.Bundle {
	t.Helper()
	_, found := layout(t, "amd64")
	return found
}

func layout(t *testing.T, architecture string) (dir string, found map[string]*hostbundle.Bundle) {
	t.Helper()
	in := t.TempDir()
	dir = filepath.Join(in, "layout")
	signer, keys, public := bundlesource.NewKeys(t)
	w, err := hostbundle.NewWriter(dir, signer)
	if err != nil {
		t.Fatal(err)
	}
	component := func(name, version string, programs ...string) hostbundle.Component {
		var sources []hostbundle.Source
		for _, program := range programs {
			from := filepath.Join(in, filepath.Base(program))
			if err := os.WriteFile(from, []byte(program+" "+version), 0o600); err != nil {
				t.Fatal(err)
			}
			sources = append(sources, hostbundle.Source{Path: program, From: from, Mode: 0o755})
		}
		c, err := w.Component(name, version, sources)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for version, containerd := range map[string]string{older: "v2.3.0", newer: "v2.4.2"} {
		err := w.Bundle(version, hostbundle.Contents{
			KubernetesVersion: version, Architecture: architecture,
			Components:  []hostbundle.Component{component("runc", "v1.5.2", "runc"), component("containerd", containerd, "bin/containerd"), component("kubernetes", version, "hyperkube")},
			Directories: []string{"/var/lib/slipway/containerd"}, SharedDirectories: []string{"/etc/cni/net.d"},
			Files: []hostbundle.HostFile{
				{Path: "/etc/slipway/containerd.toml", Mode: 0o644, Content: "# " + containerd},
				{Path: "/etc/systemd/system/slipway-containerd.service", Mode: 0o644, Content: "[Unit]\n"},
			},
			Links: []hostbundle.Link{
				{Path: "/usr/local/bin/containerd", Component: "containerd", Target: "bin/containerd"},
				{Path: "/opt/slipway/kubernetes/" + version + "/kubelet", Component: "kubernetes", Target: "hyperkube"},
				{Path: "/etc/systemd/system/multi-user.target.wants/slipway-containerd.service", Target: "../slipway-containerd.service"},
			},
			Units: []string{"slipway-containerd.service"},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), os.WriteFile(filepath.Join(in, "key.pub"), []byte(public), 0o600)); err != nil {
		t.Fatal(err)
	}
	d, err := hostbundle.OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	found = map[string]*hostbundle.Bundle{}
	for _, version := range d.Versions() {
		if found[version], err = d.Bundle(version, architecture, keys); err != nil {
			t.Fatal(err)
		}
	}
	return dir, found
}

// memory is a directory without a disk where there is one: tests sync often.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "slipway-software-") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// hostRoot looks like a small Debian.
func hostRoot(t *testing.T) hostfs.Root {
	t.Helper()
	root := hostfs.Root(memory(t))
	for _, dir := range []string{"/opt", "/usr/local/bin", "/var/lib/dpkg", "/etc/systemd/system/multi-user.target.wants", "/etc/sysctl.d"} {
		if err := os.MkdirAll(root.Path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, root, "/etc/hostname", "host-1\n")
	put(t, root, "/usr/local/bin/own-script", "#!/bin/sh\n")
	return root
}

func put(t *testing.T, root hostfs.Root, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(root.Path(path)), 0o755), os.WriteFile(root.Path(path), []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// tree maps each path below the root to its kind, mode and content.
func tree(t *testing.T, root hostfs.Root) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(string(root), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += " " + string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			what += " " + to
		}
		found[strings.TrimPrefix(path, string(root))] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// differences between two trees, readable.
func differences(got, want map[string]string) string {
	var lines []string
	for path, what := range want {
		if got[path] != what {
			lines = append(lines, fmt.Sprintf("%s: have %q, want %q", path, got[path], what))
		}
	}
	for path, what := range got {
		if _, known := want[path]; !known {
			lines = append(lines, fmt.Sprintf("%s: have %q, want nothing", path, what))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func reason(err error) Reason {
	var known *Error
	if errors.As(err, &known) {
		return known.Reason
	}
	return ""
}

// installed is a host with versions, and what it looked like before.
func installed(t *testing.T, all map[string]*hostbundle.Bundle, versions ...string) (*Host, map[string]string) {
	t.Helper()
	h := &Host{Root: hostRoot(t)}
	before := tree(t, h.Root)
	for _, v := range versions {
		if err := h.Install(t.Context(), all[v]); err != nil {
			t.Fatal(err)
		}
	}
	return h, before
}

// clone copies a host's files.
func clone(t *testing.T, h *Host) *Host {
	t.Helper()
	c := &Host{Root: hostfs.Root(memory(t))}
	for _, path := range slices.Sorted(maps.Keys(tree(t, h.Root))) {
		from, to := h.Root.Path("/"+path), c.Root.Path("/"+path)
		info, err := os.Lstat(from)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case path == "":
		case info.IsDir():
			err = errors.Join(os.Mkdir(to, 0o755), os.Chmod(to, info.Mode().Perm()))
		case info.Mode()&fs.ModeSymlink != 0:
			target, readErr := os.Readlink(from)
			err = errors.Join(readErr, os.Symlink(target, to))
		default:
			data, readErr := os.ReadFile(from)
			err = errors.Join(readErr, os.WriteFile(to, data, 0o600), os.Chmod(to, info.Mode().Perm()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}
