package clusterctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// user is somebody who runs clusterctl: a home directory with a configuration, and
// the kubeconfig of a management cluster, if any.
type user struct {
	t          *testing.T
	home       string
	kubeconfig string
	// env has variables for the templates.
	env []string
}

// newUser has a configuration that names the repository.
func newUser(t *testing.T, repository string) *user {
	t.Helper()
	u := &user{t: t, home: t.TempDir()}
	version := func(label string) string {
		if strings.Contains(label, "slipway") {
			return oldVersion
		}
		return shared.upstream
	}
	var config strings.Builder
	config.WriteString("cert-manager:\n  externallyProvisioned: true\nproviders:\n")
	for _, p := range []struct{ name, kind, label, file string }{
		{"cluster-api", "CoreProvider", "cluster-api", "core-components.yaml"},
		{"kubeadm", "BootstrapProvider", "bootstrap-kubeadm", "bootstrap-components.yaml"},
		{"kubeadm", "ControlPlaneProvider", "control-plane-kubeadm", "control-plane-components.yaml"},
		{"slipway", "InfrastructureProvider", "infrastructure-slipway", "infrastructure-components.yaml"},
		{"slipway-lifecycle", "RuntimeExtensionProvider", "runtime-extension-slipway-lifecycle", "runtime-extension-components.yaml"},
	} {
		fmt.Fprintf(&config, "  - name: %s\n    type: %s\n    url: %s\n", p.name, p.kind, filepath.Join(repository, p.label, version(p.label), p.file))
	}
	u.configure(config.String())
	return u
}

// config is where clusterctl looks for its configuration.
func (u *user) config() string {
	return filepath.Join(u.home, ".config", "cluster-api", "clusterctl.yaml")
}

func (u *user) configure(config string) {
	u.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(u.config()), 0o755), os.WriteFile(u.config(), []byte(config), 0o600)); err != nil {
		u.t.Fatal(err)
	}
}

// environ has nothing of the machine's user, and nothing is asked of the network.
func (u *user) environ() []string {
	environ := append([]string{"HOME=" + u.home, "XDG_CONFIG_HOME=" + filepath.Join(u.home, ".config"), "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "GOPROXY=off"}, u.env...)
	if u.kubeconfig != "" {
		environ = append(environ, "KUBECONFIG="+u.kubeconfig)
	}
	return environ
}

// try runs clusterctl and returns what it prints.
func (u *user) try(args ...string) (stdout, stderr string, err error) {
	u.t.Helper()
	return u.tryContext(poll.Context(u.t), args...)
}

// tryContext kills clusterctl when the context ends.
func (u *user) tryContext(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(ctx, shared.clusterctl, args...)
	cmd.Env = append(u.environ(), "PATH=/nonexistent")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// run expects clusterctl to succeed.
func (u *user) run(args ...string) string {
	u.t.Helper()
	stdout, stderr, err := u.try(args...)
	if err != nil {
		u.t.Fatalf("clusterctl %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout + stderr
}

// refused expects it to fail with a message.
func (u *user) refused(want string, args ...string) {
	u.t.Helper()
	stdout, stderr, err := u.try(args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		u.t.Errorf("clusterctl %s: %v, want a failure\n%s", strings.Join(args, " "), err, stdout)
		return
	}
	if !strings.Contains(stderr, want) {
		u.t.Errorf("clusterctl %s fails with\n%s\nwithout %q", strings.Join(args, " "), stderr, want)
	}
}

// kubectl runs kubectl on the management cluster.
func (u *user) kubectl(stdin string, args ...string) string {
	u.t.Helper()
	cmd := exec.Command(shared.kubectl, append([]string{"--kubeconfig", u.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
