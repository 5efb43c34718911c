package reset_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// What the next node would run as root goes with the pods that brought it.
func TestProgramsOfPods(t *testing.T) {
	const flexVolume = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec"
	link := func(t *testing.T, h *fakehost.Host, target, path string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(h.Root.Path(path)), os.Symlink(target, h.Root.Path(path))); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		pod func(*testing.T, *fakehost.Host)
		// left is what the reset cannot undo; empty when the host is clean.
		left string
		gone []string
	}{
		"FlexVolume driver":                    {pod: func(t *testing.T, h *fakehost.Host) { put(t, h, flexVolume+"/evil~uds/uds", "") }, gone: []string{flexVolume + "/evil~uds"}},
		"plugin of containerd":                 {pod: func(t *testing.T, h *fakehost.Host) { put(t, h, "/opt/nri/plugins/00-evil", "") }, gone: []string{"/opt/nri/plugins/00-evil"}},
		"network plugin":                       {pod: func(t *testing.T, h *fakehost.Host) { put(t, h, "/opt/cni/bin/flannel", "") }, gone: []string{"/opt/cni/bin/flannel"}},
		"link":                                 {pod: func(t *testing.T, h *fakehost.Host) { link(t, h, "/bin/sh", "/opt/cni/bin/flannel") }, gone: []string{"/opt/cni/bin/flannel"}},
		"another driver":                       {pod: func(t *testing.T, h *fakehost.Host) { put(t, h, flexVolume+"/own~nfs/nfs", "evil") }, left: "file " + flexVolume + "/own~nfs/nfs, which is not what it was before"},
		"driver of the same size":              {pod: func(t *testing.T, h *fakehost.Host) { put(t, h, flexVolume+"/own~nfs/nfs", "owm") }, left: "file " + flexVolume + "/own~nfs/nfs, which"},
		"driver that leads away":               {pod: func(t *testing.T, h *fakehost.Host) { link(t, h, "/tmp/evil", flexVolume+"/own~nfs/nfs") }, left: "file " + flexVolume + "/own~nfs/nfs, which"},
		"network configuration":                {pod: func(t *testing.T, h *fakehost.Host) { put(t, h, "/etc/cni/net.d/00-own.conf", "evil") }, left: "file /etc/cni/net.d/00-own.conf, which"},
		"build of a network plugin by another": {pod: func(t *testing.T, h *fakehost.Host) { put(t, h, "/opt/cni/bin/loopback", "calico's") }},
		// To empty it would be to empty what it leads to.
		"directory that leads away": {pod: func(t *testing.T, h *fakehost.Host) {
			put(t, h, "/victim/bin/file", "")
			link(t, h, "../victim", "/opt/cni")
		}, left: "file /opt/cni, which is not what it was before"},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			own := []string{flexVolume + "/own~nfs/nfs", "/etc/cni/net.d/00-own.conf", "/opt/cni/bin/loopback"}
			for _, path := range own {
				put(t, h, path, "own")
			}
			mkdir(t, h, "/opt/nri/plugins")
			baseline, err := h.Executor.Cleaner.Baseline(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			state := journal.State{Baseline: baseline}
			verify := func() string {
				left, err := h.Executor.Verify(t.Context(), state)
				if err != nil {
					t.Fatal(err)
				}
				return strings.Join(left, "; ")
			}
			tc.pod(t, h)
			if left := verify(); (len(tc.gone) > 0 || tc.left != "") && left == "" {
				t.Error("the host is proved clean without a reset")
			}
			if err := h.Executor.Reset(t.Context(), &progress{state: state}); (err != nil) != (name == "directory that leads away") {
				t.Errorf("reset: %v", err)
			}
			if left := verify(); !strings.HasPrefix(left, tc.left) || (left == "") != (tc.left == "") {
				t.Errorf("left is %q, want %q", left, tc.left)
			}
			for _, path := range tc.gone {
				if _, err := os.Lstat(h.Root.Path(path)); err == nil {
					t.Errorf("%s is left behind", path)
				}
			}
			if name == "directory that leads away" {
				own = append(own[:2], "/victim/bin/file")
			}
			for _, path := range own {
				if _, err := os.Lstat(h.Root.Path(path)); err != nil {
					t.Errorf("%s is gone", path)
				}
			}
		})
	}
}
