package software

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/test/fakehost/bundlesource"
)

const version = "v1.36.3"

// operationLayout writes one bundle, whose kubelet is the content.
func operationLayout(t *testing.T, content string) (dir string, keys hostbundle.PublicKeys, digest string) {
	t.Helper()
	in := t.TempDir()
	dir = filepath.Join(in, "layout")
	signer, keys, _ := bundlesource.NewKeys(t)
	w, err := hostbundle.NewWriter(dir, signer)
	must(t, err)
	program := filepath.Join(in, "kubelet")
	must(t, os.WriteFile(program, []byte(content), 0o600))
	c, err := w.Component("kubernetes", version, []hostbundle.Source{{Path: "kubelet", From: program, Mode: 0o755}})
	must(t, err)
	must(t, w.Bundle(version, hostbundle.Contents{
		KubernetesVersion: version, Architecture: runtime.GOARCH, Components: []hostbundle.Component{c},
		Links: []hostbundle.Link{{Path: "/opt/slipway/kubernetes/" + version + "/kubelet", Component: "kubernetes", Target: "kubelet"}},
	}))
	must(t, w.Close())
	d, err := hostbundle.OpenDirectory(dir)
	must(t, err)
	b, err := d.Bundle(version, runtime.GOARCH, keys)
	must(t, err)
	return dir, keys, b.Index().String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bundleCopied is a source of which the first tries fail.
type bundleCopied struct {
	bundlesource.Layout
	// asked counts the tries, of which the first so many fail.
	asked, fails *int
}

func (c bundleCopied) Versions(context.Context) ([]string, error) { return []string{version}, nil }

func (c bundleCopied) Stage(ctx context.Context, s hostbundle.Staging, version, architecture string) error {
	if *c.asked++; *c.asked <= *c.fails {
		return &hostbundle.Error{Reason: hostbundle.ReasonUnreachable, Err: errors.New("no route to host")}
	}
	return c.Layout.Stage(ctx, s, version, architecture)
}

// record is a journal in memory that fails at its n-th write, and the words that it was told.
type record struct {
	state journal.State
	words []string
	n     int
	fail  int
}

var errFull = errors.New("the disk is full")

func (r *record) Update(change func(*journal.State)) error {
	if r.n++; r.n == r.fail {
		return errFull
	}
	change(&r.state)
	if m := r.state.Operation.Message; m != "" {
		r.words = append(r.words, m)
	}
	return nil
}

func (r *record) Begin(step string) error {
	return r.Update(func(s *journal.State) { s.Operation.Step, s.Operation.Active = step, true })
}
func (r *record) Done() error {
	return r.Update(func(s *journal.State) { s.Operation.StepDone = true })
}
func (r *record) State() journal.State { return r.state }

// world is a host that installs versions from a layout.
type world struct {
	*Installer
	*record
	source  bundleCopied
	digest  string
	changed int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, keys, digest := operationLayout(t, "a kubelet")
	root := hostfs.Root(t.TempDir())
	must(t, os.MkdirAll(root.Path("/var/lib"), 0o755))
	w := &world{digest: digest, source: bundleCopied{bundlesource.Layout{Dir: dir, Keys: keys}, new(int), new(int)}, record: &record{}}
	w.state.Operation = &journal.Operation{ID: "o", State: infrav1.OperationRunning}
	w.Installer = &Installer{
		Host: Host{Root: root}, Keep: 1, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Has:     func(context.Context, string) bool { return false },
		Keys:    func() (hostbundle.PublicKeys, error) { return keys, nil },
		Sources: func(context.Context) ([]Source, error) { return []Source{w.source}, nil },
		Changed: func() { w.changed++ },
	}
	return w
}

func (w *world) install(t *testing.T, digest string) error {
	t.Helper()
	return w.Install(t.Context(), operation.Software{Version: version, ReleaseDigest: digest}, w.record)
}

func (w *world) kubelet(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(w.Host.Root.Path("/opt/slipway/kubernetes/" + version + "/kubelet"))
	if err != nil {
		return ""
	}
	return string(data)
}

func TestInstall(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		must(t, w.install(t, w.digest))
	}
	if w.kubelet(t) != "a kubelet" || *w.source.asked != 1 || w.changed != 1 {
		t.Errorf("the kubelet is %q, asked %d times, changed %d times", w.kubelet(t), *w.source.asked, w.changed)
	}
	if op := w.state.Operation; op.Step != InstallStep || !op.StepDone || op.Message != "" || op.Reason != "" {
		t.Errorf("operation %+v", op)
	}
	if words := strings.Join(w.words, "; "); !strings.Contains(words, "fetched 0 of 0 MiB of kubernetes v1.36.3") || !strings.Contains(words, "unpacking 1 of 1: kubernetes v1.36.3") {
		t.Errorf("told %q", words)
	}
}

// Another bundle of the version is taken for the ordered one neither from a source nor from
// the disk.
func TestInstallTakesTheOrderedBundle(t *testing.T) {
	w := newWorld(t)
	must(t, w.install(t, w.digest))
	other := newWorld(t)
	dir, keys, digest := operationLayout(t, "another kubelet")
	err := w.install(t, digest)
	var failed *operation.Error
	if !errors.As(err, &failed) || failed.Reason != operation.ReasonSoftwareUnavailable || failed.Retry != operation.RetryLater || !strings.Contains(failed.Message, "OtherBundle: ") {
		t.Errorf("err = %+v", err)
	}
	if w.kubelet(t) != "a kubelet" {
		t.Errorf("the kubelet is %q", w.kubelet(t))
	}
	w.source, w.Keys = bundleCopied{bundlesource.Layout{Dir: dir, Keys: keys}, other.source.asked, other.source.fails}, func() (hostbundle.PublicKeys, error) { return keys, nil }
	must(t, w.install(t, digest))
	if w.kubelet(t) != "another kubelet" {
		t.Errorf("the kubelet is %q", w.kubelet(t))
	}
}

// What an operator put there stays, and an order without a bundle installs none.
func TestInstallLeavesAlone(t *testing.T) {
	w := newWorld(t)
	must(t, w.install(t, ""))
	w.Has = func(_ context.Context, v string) bool { return v == version }
	must(t, w.install(t, w.digest))
	if *w.source.asked != 0 || w.n != 0 {
		t.Errorf("asked %d times, wrote %d times", *w.source.asked, w.n)
	}
}

// Each failure has a reason and a remedy, and goes away once it is mended.
func TestInstallIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(w *world) (mend func())
		want   string
	}{
		"unreachable": {func(w *world) func() { *w.source.fails = 1; return func() {} }, "install Kubernetes v1.36.3: Unreachable: no route to host"},
		"no key": {func(w *world) func() {
			keys := w.Keys
			w.Keys = func() (hostbundle.PublicKeys, error) { return hostbundle.PublicKeys{}, os.ErrNotExist }
			return func() { w.Keys = keys }
		}, "file does not exist"},
		"another key": {func(w *world) func() {
			keys := w.Keys
			_, other, _ := operationLayout(t, "")
			w.Keys = func() (hostbundle.PublicKeys, error) { return other, nil }
			return func() { w.Keys = keys }
		}, "Untrusted: "},
		"no source": {func(w *world) func() {
			sources := w.Sources
			w.Sources = func(context.Context) ([]Source, error) {
				return nil, errors.New("serves no host bundles to this host")
			}
			return func() { w.Sources = sources }
		}, "serves no host bundles"},
		"something in the way": {func(w *world) func() {
			path := w.Host.Root.Path("/opt/slipway/kubernetes/" + version + "/kubelet")
			must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)))
			return func() { must(t, os.Remove(path)) }
		}, "Foreign: "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			mend := c.breaks(w)
			var failed *operation.Error
			if err := w.install(t, w.digest); !errors.As(err, &failed) || failed.Retry != operation.RetryLater || !strings.Contains(failed.Message, c.want) {
				t.Errorf("err = %v, want %q", err, c.want)
			}
			mend()
			if err := w.install(t, w.digest); err != nil || w.kubelet(t) != "a kubelet" {
				t.Errorf("the kubelet is %q: %v", w.kubelet(t), err)
			}
		})
	}
}

// The power goes before each record of the journal: the next try ends it. Cuts at the writes of
// the install itself are in package software.
func TestInstallCutAtEachRecord(t *testing.T) {
	whole := newWorld(t)
	must(t, whole.install(t, whole.digest))
	for n := 1; n <= whole.n; n++ {
		w := newWorld(t)
		w.fail = n
		err := w.install(t, w.digest)
		w.fail = 0
		if again := w.install(t, w.digest); again != nil || w.kubelet(t) != "a kubelet" {
			t.Errorf("cut at %d (%v), then: %v, the kubelet is %q", n, err, again, w.kubelet(t))
		}
	}
}

// An operation that is called off says nothing of the host.
func TestInstallCalledOff(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.Sources = func(context.Context) ([]Source, error) { cancel(); return []Source{w.source}, nil }
	err := w.Install(ctx, operation.Software{Version: version, ReleaseDigest: w.digest}, w.record)
	var failed *operation.Error
	if err == nil || errors.As(err, &failed) {
		t.Errorf("err = %v", err)
	}
	must(t, w.install(t, w.digest))
}
