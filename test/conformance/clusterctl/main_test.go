package clusterctl

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/conformance/judge"
	"github.com/slipway-dev/slipway/test/live"
)

// Versions of the releases that are made here.
const (
	oldVersion = "v0.1.0"
	newVersion = "v0.2.0"
)

// assets are what the tests share.
type assets struct {
	root       string
	clusterctl string
	slipway    string
	kubectl    string
	// upstream is the version of Cluster API whose providers are in the repository.
	upstream   string
	repository string
	guide      *guide
}

var shared assets

// testsAtOnce is how many tests may wait for a turn at once: all of them.
const testsAtOnce = "32"

func TestMain(m *testing.M) {
	flag.Parse()
	if !level.IsDeep() {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "clusterctl-")
	if err == nil {
		err = errors.Join(flag.Set("test.parallel", testsAtOnce), live.MarkProcess(), shared.make(dir))
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "clusterctl:", err)
	} else {
		code = m.Run()
	}
	// a run of all tests, those for root among them, follows the whole guide
	if code == 0 && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" && os.Getuid() == 0 {
		if err := shared.guide.untried(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// begin is the first line of each test. The test runs beside others, and has so many hosts
// at once or what is as heavy: a management cluster with its managers is as a host.
func begin(t *testing.T, hosts int) {
	t.Helper()
	level.Deep(t)
	t.Parallel()
	if hosts > 0 {
		live.Turn(t, hosts)
	}
}

// make builds clusterctl and two releases of Slipway, and renders upstream's.
func (a *assets) make(dir string) error {
	root, err := output("", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/slipway-dev/slipway")
	if err != nil {
		return err
	}
	a.root = root
	if a.guide, err = readGuide(root); err != nil {
		return err
	}
	bin := os.Getenv("SLIPWAY_BIN")
	if bin == "" {
		bin = filepath.Join(root, "bin")
	}
	a.slipway, a.kubectl = filepath.Join(bin, "slipway"), filepath.Join(bin, "kubectl")
	if _, err := os.Stat(a.slipway); err != nil {
		return fmt.Errorf("%w: run `make build` first", err)
	}
	if err := judge.FindAssets(bin); err != nil {
		return err
	}
	a.clusterctl = filepath.Join(dir, "clusterctl")
	if _, err := output(filepath.Join(root, "test/e2e/upstream"), "go", "build", "-trimpath", "-o", a.clusterctl, "sigs.k8s.io/cluster-api/cmd/clusterctl"); err != nil {
		return err
	}
	a.repository = filepath.Join(dir, "repository")
	if err := a.makeReleases(dir); err != nil {
		return err
	}
	return a.renderUpstream(context.Background())
}

// makeReleases makes what is installed of the old and the new release; metadata.yaml knows
// the series of both.
func (a *assets) makeReleases(dir string) error {
	tool := filepath.Join(dir, "release")
	if _, err := output(filepath.Join(a.root, "release"), "go", "build", "-trimpath", "-o", tool, "."); err != nil {
		return err
	}
	for _, version := range []string{oldVersion, newVersion} {
		source := a.root
		if version == newVersion {
			var err error
			if source, err = a.nextSource(filepath.Join(dir, "next")); err != nil {
				return err
			}
		}
		if _, err := output("", tool, "-source", source, "-out", dir, "-version", version, "-epoch", "0", "-architectures", runtime.GOARCH, "-installable"); err != nil {
			return err
		}
	}
	return nil
}

// nextSource is this tree at the next minor release: the same, with a series more.
func (a *assets) nextSource(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(a.root)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		if entry.Name() == "metadata.yaml" {
			continue
		}
		if err := os.Symlink(filepath.Join(a.root, entry.Name()), filepath.Join(dir, entry.Name())); err != nil {
			return "", err
		}
	}
	metadata, err := os.ReadFile(filepath.Join(a.root, "metadata.yaml"))
	if err != nil {
		return "", err
	}
	metadata = append(metadata, "  - major: 0\n    minor: 2\n    contract: v1beta2\n"...)
	return dir, os.WriteFile(filepath.Join(dir, "metadata.yaml"), metadata, 0o644)
}

// upstreamProviders are the others that a management cluster needs, by label.
var upstreamProviders = []struct{ label, dir, file string }{
	{"cluster-api", "core/config/default", "core-components.yaml"},
	{"bootstrap-kubeadm", "bootstrap/kubeadm/config/default", "bootstrap-components.yaml"},
	{"control-plane-kubeadm", "controlplane/kubeadm/config/default", "control-plane-components.yaml"},
}

func (a *assets) renderUpstream(ctx context.Context) error {
	module, err := judge.Download(ctx, "sigs.k8s.io/cluster-api@"+a.upstreamVersion())
	if err != nil {
		return err
	}
	for _, p := range upstreamProviders {
		to := filepath.Join(a.repository, p.label, a.upstream)
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		components, err := judge.Kustomize(ctx, filepath.Join(module, p.dir))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, p.file), components, 0o644); err != nil {
			return err
		}
		metadata, err := os.ReadFile(filepath.Join(module, "metadata.yaml"))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, "metadata.yaml"), metadata, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// upstreamVersion is the one clusterctl is built from.
func (a *assets) upstreamVersion() string {
	if a.upstream == "" {
		a.upstream, _ = output(filepath.Join(a.root, "test/e2e/upstream"), "go", "list", "-m", "-f", "{{.Version}}", "sigs.k8s.io/cluster-api")
	}
	return a.upstream
}

// output runs a program outside of the workspace and returns what it prints.
func output(dir, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	data, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, exit.Stderr)
	}
	return string(bytes.TrimSpace(data)), err
}
