package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/slipway-dev/slipway/internal/testenv/versions"
)

var errUsage = errors.New("usage: kubernetes add|pin|page|remove v1.37.2")

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 || !semver.IsValid(args[1]) {
		return errUsage
	}
	version := args[1]
	switch args[0] {
	case "add":
		return add(version)
	case "pin":
		return pin(version)
	case "page":
		return writePage(version)
	case "remove":
		return remove(version)
	}
	return errUsage
}

// add does all that a new version takes, and prints what differs.
func add(version string) error {
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"requirements", func() error { return pin(version) }},
		{"programs", func() error { return command("make", "build", "KUBERNETES="+version) }},
		{"programs of the version before", func() error {
			before, err := before(version)
			if err != nil {
				return err
			}
			return command("make", "build", "KUBERNETES="+before)
		}},
		{"what differs", func() error { return writePage(version) }},
		{"documents", func() error {
			return command("go", "test", "-vet=off", "-count=1", "./test/docs", "-run", "TestVersionsReference", "-args", "-write")
		}},
		{"a cluster, and the upgrade from the version before", func() error {
			return command("go", "test", "-vet=off", "-count=1", "-timeout=60m", "./test/e2e", "-run", "^(TestEachVersion|TestUpgradeInPlace)$/"+regexpOf(version)+"$")
		}},
	} {
		fmt.Printf("==> %s\n", step.name)
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	content, err := os.ReadFile(pageOf(version))
	fmt.Println(string(content))
	return err
}

// regexpOf is a version in a pattern of test names.
func regexpOf(version string) string { return strings.ReplaceAll(version, ".", `\.`) }

// before is the newest version of the minor before that of a version.
func before(version string) (string, error) {
	for _, k := range slices.Backward(versions.All()) {
		if semver.Compare(semver.MajorMinor(k.Version), semver.MajorMinor(version)) < 0 {
			return k.Version, nil
		}
	}
	return "", fmt.Errorf("the node bundle has no version before %s", version)
}

func pageOf(version string) string {
	return filepath.Join("docs/versions", strings.TrimPrefix(semver.MajorMinor(version), "v")+".md")
}

func writePage(version string) error {
	from, err := before(version)
	if err != nil {
		return err
	}
	text, err := page(from, version)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(pageOf(version)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(pageOf(version), []byte(text), 0o644)
}

// remove deletes a minor version: requirements, page and the rows of documents.
func remove(version string) error {
	if err := refusePlane(version); err != nil {
		return err
	}
	for _, p := range []program{kubernetes, etcd, coreDNS} {
		if err := p.remove(semver.MajorMinor(version)); err != nil {
			return err
		}
	}
	if err := os.Remove(pageOf(version)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return command("go", "test", "-vet=off", "-count=1", "./test/docs", "-run", "TestVersionsReference", "-args", "-write")
}

// command runs a program with the environment of this one, without what a `make` above it was given.
func command(name string, args ...string) error {
	c := exec.Command(name, args...) //nolint:gosec,nolintlint // for whoever runs this program; gosec finds it or not, by what is cached
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	bin, err := filepath.Abs("bin")
	if err != nil {
		return err
	}
	for _, variable := range os.Environ() {
		if key, _, _ := strings.Cut(variable, "="); !slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "VERSION"}, key) {
			c.Env = append(c.Env, variable)
		}
	}
	c.Env = append(c.Env, "SLIPWAY_DEEP=1", "SLIPWAY_REQUIRE_ROOT=1", "SLIPWAY_BIN="+bin, "KUBEBUILDER_ASSETS="+filepath.Join(bin, "envtest"))
	return c.Run()
}
