package shared

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Program builds a main package and returns the path of the program, below bin of the work
// tree that the test is of. It is linked once for the tests of all packages, and again once
// its sources have changed.
func Program(ctx context.Context, pkg string) (string, error) {
	// The go command sees that a test reads this, not what it builds. `make test` names the
	// directory by what the programs of this repository are.
	_ = os.Getenv("SLIPWAY_BIN")
	root, err := root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "tested", filepath.Base(pkg))
	// Another process may have linked it in between: go build finds that it is up to date.
	return path, Alone(path, func() error { return Build(ctx, path, pkg) })
}

// outside are the programs that are in modules outside of the workspace, each with its own one.
var outside = map[string]string{"slipway-bundle": "hack/bundle.work"}

// Build builds a main package as path, by the flags of this repository's other builds.
func Build(ctx context.Context, path, pkg string) error {
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, pkg)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if work := outside[filepath.Base(pkg)]; work != "" {
		root, err := root()
		if err != nil {
			return err
		}
		command.Env = append(command.Env, "GOWORK="+filepath.Join(root, work))
	}
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// root is the work tree that the working directory is in.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil || !errors.Is(err, os.ErrNotExist) {
			return dir, err
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no folder above this test has a go.work: run it in the repository")
		}
	}
}
