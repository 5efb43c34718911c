package software

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/testenv/powercut"
)

func TestUnused(t *testing.T) {
	layer := digest.FromString
	release := func(version string, components ...string) Release {
		r := Release{State: StateInstalled, Contents: hostbundle.Contents{KubernetesVersion: version}}
		for _, c := range components {
			r.Components = append(r.Components, hostbundle.Component{Name: c, Layer: layer(c)})
		}
		return r
	}
	all := []Release{release("v1", "runtime-1", "kubelet-1"), release("v2", "runtime-1", "kubelet-2"), release("v3", "runtime-2", "kubelet-3"), release("v4", "runtime-2", "kubelet-4")}
	for name, c := range map[string]struct {
		used    []string
		running []string
		keep    int
		want    []string
	}{
		"nothing is used":                  {nil, nil, 2, []string{"v1", "v2"}},
		"all but one":                      {nil, nil, 1, []string{"v1", "v2", "v3"}},
		"one always stays":                 {nil, nil, 0, []string{"v1", "v2", "v3"}},
		"an old one is used":               {[]string{"v1"}, nil, 1, []string{"v2", "v3"}},
		"all stay":                         {nil, nil, 4, nil},
		"a program of an old one runs":     {nil, []string{"kubelet-1"}, 1, []string{"v2", "v3"}},
		"a program that another one has":   {nil, []string{"runtime-2"}, 1, []string{"v1", "v2", "v3"}},
		"of two that have it, the newer":   {nil, []string{"runtime-1"}, 1, []string{"v1", "v3"}},
		"of two that have it, that in use": {[]string{"v1"}, []string{"runtime-1"}, 1, []string{"v2", "v3"}},
	} {
		t.Run(name, func(t *testing.T) {
			running := map[digest.Digest]bool{}
			for _, r := range c.running {
				running[layer(r)] = true
			}
			got := unused(all, func(r Release) bool { return slices.Contains(c.used, r.KubernetesVersion) }, running, c.keep)
			if !slices.Equal(got, c.want) {
				t.Errorf("%q go, want %q", got, c.want)
			}
		})
	}
}

// What a host runs by stays: the kubelet that is chosen, and what a process was started from.
func TestTidyLeavesWhatRuns(t *testing.T) {
	all := bundles(t)
	for name, use := range map[string]func(h *Host) error{
		"chosen": func(h *Host) error {
			return os.Symlink("../../../opt/slipway/kubernetes/"+older+"/kubelet", h.Root.Path("/usr/local/bin/kubelet"))
		},
		"running": func(h *Host) error {
			containerd := all[older].Components[slices.IndexFunc(all[older].Components, func(c hostbundle.Component) bool { return c.Name == "containerd" })]
			put(t, h.Root, "/proc/7/stat", "")
			return os.Symlink(storePath(containerd)+"/bin/containerd (deleted)", h.Root.Path("/proc/7/exe"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := installed(t, all, older, newer)
			if err := use(h); err != nil {
				t.Fatal(err)
			}
			before := tree(t, h.Root)
			if gone, _, err := h.Tidy(t.Context(), "", 1); err != nil || len(gone) > 0 {
				t.Errorf("%q are gone: %v", gone, err)
			}
			if diff := differences(tree(t, h.Root), before); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What a download left goes, whether or not a version goes.
func TestTidyTakesDownloads(t *testing.T) {
	h, _ := installed(t, bundles(t), newer)
	before := tree(t, h.Root)
	put(t, h.Root, staging+"/blobs/x", "half")
	if _, _, err := h.Tidy(t.Context(), "", 1); err != nil {
		t.Fatal(err)
	}
	if diff := differences(tree(t, h.Root), before); diff != "" {
		t.Error(diff)
	}
}

// A source cannot pass another bundle of the version for the wanted one, signed as it may be.
func TestAnotherBundleIsRefused(t *testing.T) {
	dir, all := layout(t, runtime.GOARCH)
	h := &Host{Root: hostRoot(t)}
	before := tree(t, h.Root)
	_, err := h.Fetch(t.Context(), Wanted{Version: newer, Index: all[older].Index()}, keysOf(t, dir), sourceOf(t, dir))
	if reason(err) != ReasonOtherBundle || !strings.Contains(err.Error(), all[newer].Index().String()) {
		t.Errorf("err = %v", err)
	}
	if diff := differences(tree(t, h.Root), before); diff != "" {
		t.Error(diff)
	}
	// A mirror that has it is asked, too.
	if _, err := h.Fetch(t.Context(), Wanted{Version: newer, Index: all[newer].Index()}, keysOf(t, dir), sourceOf(t, dir)); err != nil {
		t.Fatal(err)
	}
	if releases, err := h.Installed(); err != nil || len(releases) != 1 || releases[0].Index != all[newer].Index() {
		t.Errorf("installed %+v: %v", releases, err)
	}
}

// cut is a runner of commands that fails until the power is back.
type cut struct{ fails bool }

func (c *cut) Has(string) bool { return true }

func (c *cut) Run(context.Context, string, ...string) ([]byte, error) {
	if c.fails {
		return nil, powercut.ErrCut
	}
	return nil, nil
}

func (c *cut) RunInput(ctx context.Context, _ []byte, name string, args ...string) ([]byte, error) {
	return c.Run(ctx, name, args...)
}

// A version whose services did not come up is not installed yet, whatever is on the disk.
func TestInstalledIsWhatWasStarted(t *testing.T) {
	power := &cut{fails: true}
	h := &Host{Root: hostRoot(t), Services: &Services{Runner: power, mounts: filepath.Join(t.TempDir(), "none")}}
	all := bundles(t)
	state := func() State {
		t.Helper()
		releases, err := h.Installed()
		if err != nil || len(releases) != 1 {
			t.Fatalf("releases %v: %v", releases, err)
		}
		return releases[0].State
	}
	if err := h.Install(t.Context(), all[newer]); !errors.Is(err, powercut.ErrCut) || state() != StateInstalling {
		t.Errorf("state %s: %v", state(), err)
	}
	power.fails = false
	if err := h.Install(t.Context(), all[newer]); err != nil || state() != StateInstalled {
		t.Errorf("state %s: %v", state(), err)
	}
}
