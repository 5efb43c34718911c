package selfupdate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/recipe"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/fakehost/bundlesource"
)

// Agents that are tried. Each tells its version, and its process in the file "pid" beside it.
const (
	tellsVersion = "#!/bin/sh\nif [ \"$1\" = version ]; then echo v0.2.0; exit; fi\necho $$ >\"$(dirname \"$0\")/pid\"\n"
	good         = tellsVersion + "trap 'exit 0' TERM\necho started >&$SLIPWAY_AGENT_TRIAL\necho reported >&$SLIPWAY_AGENT_TRIAL\nwhile :; do sleep 0.01; done\n"
	stubborn     = tellsVersion + "trap '' TERM\necho started >&$SLIPWAY_AGENT_TRIAL\necho reported >&$SLIPWAY_AGENT_TRIAL\nwhile :; do sleep 0.01; done\n"
	hangs        = tellsVersion + "exec sleep 1000\n"
	silent       = tellsVersion + "echo started >&$SLIPWAY_AGENT_TRIAL\nexec sleep 1000\n"
	crashes      = tellsVersion + "echo started >&$SLIPWAY_AGENT_TRIAL\nexit 3\n"
	other        = "#!/bin/sh\necho v0.1.9\n"
	broken       = "#!/bin/sh\nexit 1\n"
	noProgram    = "\x7fELF and no more"
	chatters     = "#!/bin/sh\nexec yes\n"
)

// layout writes one bundle with a program.
func layout(t *testing.T, content string) (bundles bundlesource.Layout, digest string) {
	t.Helper()
	in := t.TempDir()
	signer, keys, _ := bundlesource.NewKeys(t)
	bundles.Keys = keys
	bundles.Dir = filepath.Join(in, "layout")
	w, err := hostbundle.NewWriter(bundles.Dir, signer)
	must(t, err)
	program := filepath.Join(in, "slipway-agent")
	must(t, os.WriteFile(program, []byte(content), 0o600))
	must(t, errors.Join(recipe.Agent(w, newVersion, map[string]string{runtime.GOARCH: program}), w.Close()))
	d, err := hostbundle.OpenDirectory(bundles.Dir)
	must(t, err)
	b, err := d.Bundle(hostbundle.AgentTag(newVersion), runtime.GOARCH, bundles.Keys)
	must(t, err)
	return bundles, b.Index().String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// source is never asked for the newest version.
type source struct{ *bundlesource.Layout }

func (source) Versions(context.Context) ([]string, error) { return nil, errors.ErrUnsupported }

// world is a host whose agent is a file, and a source of another version.
type world struct {
	*Updater
	source  *bundlesource.Layout
	digest  string
	busy    string
	away    error
	noKeys  error
	sources error
}

func newWorld(t *testing.T, content string) *world {
	t.Helper()
	bundles, digest := layout(t, content)
	dir := t.TempDir()
	w := &world{source: &bundles, digest: digest}
	must(t, errors.Join(os.Mkdir(dir+"/state", 0o700), os.Mkdir(dir+"/bin", 0o755), os.WriteFile(dir+"/bin/slipway-agent", []byte("the old agent"), 0o755)))
	w.restart(t, dir, oldVersion)
	return w
}

// restart is what a start of the agent makes of the disk.
func (w *world) restart(t *testing.T, dir, version string) {
	t.Helper()
	w.Updater = New(Options{
		StateDir: dir + "/state", Program: dir + "/bin/slipway-agent", Version: version,
		May: func() bool { return true }, Busy: func() string { return w.busy },
		Keys: func() (hostbundle.PublicKeys, error) { return w.source.Keys, w.noKeys },
		Sources: func(context.Context) ([]software.Source, error) {
			return []software.Source{source{w.source}}, w.sources
		},
		Reachable: func(context.Context) error { return w.away },
		Log:       func() *slog.Logger { return slog.New(slog.DiscardHandler) },
	}, nil)
	w.limits = limits{start: 20 * time.Second, report: 20 * time.Second, stop: 10 * time.Second, grace: 100 * time.Millisecond, check: 20 * time.Second, fetch: time.Minute, maxFetch: time.Hour, retry: time.Minute}
}

func (w *world) dir() string { return filepath.Dir(w.options.StateDir) }

func (w *world) order() {
	w.Served(&infrav1.Host{Spec: infrav1.HostSpec{Agent: &infrav1.HostAgentSpec{Version: newVersion, ReleaseDigest: w.digest}}})
}

// run is Run until it is ready, or rests.
func (w *world) run(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithCancel(poll.Context(t))
	defer cancel()
	w.rest = func(context.Context, time.Duration, bool, <-chan struct{}) { cancel() }
	return w.Run(ctx)
}

// program is the content of the agent's program.
func (w *world) program(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(w.options.Program)
	must(t, err)
	return string(data)
}

// clean holds that nothing is left of an update.
func (w *world) clean(t *testing.T, but ...string) {
	t.Helper()
	var found []string
	must(t, filepath.WalkDir(w.dir(), func(path string, e fs.DirEntry, err error) error {
		if name := strings.TrimPrefix(path, w.dir()); !e.IsDir() && name != "/bin/slipway-agent" && name != "/bin/pid" {
			found = append(found, name)
		}
		if e.IsDir() && e.Name() == stagingDir {
			found = append(found, path)
		}
		return err
	}))
	if fmt.Sprint(found) != fmt.Sprint(but) {
		t.Errorf("left: %v, want %v", found, but)
	}
}

func (w *world) tells(t *testing.T, state infrav1.HostAgentUpdateState, words ...string) {
	t.Helper()
	got := w.Status()
	if got == nil || got.State != state || got.Version != newVersion || got.ReleaseDigest != w.digest {
		t.Errorf("it tells %+v, want %s", got, state)
		return
	}
	for _, word := range words {
		if !strings.Contains(got.Message, word) {
			t.Errorf("it tells %q, want %q", got.Message, word)
		}
	}
}
