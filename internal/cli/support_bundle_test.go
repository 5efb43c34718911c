package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/test/clitest"
)

// A bundle is whole and for its user alone, or there is none.
func TestSupportBundle(t *testing.T) {
	kubeconfig := as(t, "", "")
	ns := env.Namespace(t)
	create(t, host(ns, "h1", "r1"))
	dir := t.TempDir()
	file := filepath.Join(dir, "case.tar.gz")
	out, err := run(t, "support-bundle", "--kubeconfig", kubeconfig, "-n", ns, "-o", file)
	if err != nil || strings.TrimSpace(out) != file {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Errorf("%v, %v", err, info)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := clitest.Run(interrupted, plugin(), "support-bundle", "--kubeconfig", kubeconfig, "-o", filepath.Join(dir, "none.tar.gz")); err == nil {
		t.Error("a bundle that was interrupted is told as one that is whole")
	}
	if _, err := run(t, "support-bundle", "--kubeconfig", kubeconfig, "-o", filepath.Join(dir, "missing", "x")); err == nil || !strings.Contains(err.Error(), "no such file or directory") {
		t.Errorf("in a folder that is not there: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v: left behind: %v", err, files)
	}
}
