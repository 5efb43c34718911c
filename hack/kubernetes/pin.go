package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/slipway-dev/slipway/internal/testenv/versions"
)

// upstream is what a version of Kubernetes says of itself.
type upstream struct {
	version string
	// staged are the modules that are released with it, such as k8s.io/api.
	staged []string
	// etcd and coreDNS are the versions that its kubeadm names, with a leading v.
	etcd, coreDNS string
}

// program is one of the node bundle that a Kubernetes version may need in a version of its own: the module that it is
// built in, its directory there, what it is made from, and how the paths of modules that come with that begin.
type program struct{ module, dir, path, family string }

var (
	kubernetes = program{"nodebundle/kubernetes", ".", "k8s.io/kubernetes", "k8s.io/"}
	etcd       = program{"nodebundle", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/"}
	coreDNS    = program{"nodebundle/network", "coredns", "github.com/coredns/coredns", "github.com/coredns/"}
)

// file has the requirements of a program for a minor version of Kubernetes, without its suffix.
func (p program) file(minor string) string {
	return filepath.Join(p.module, "kubernetes-"+strings.TrimPrefix(minor, "v"))
}

// ask downloads the sources of a version, and reads what it says of itself.
func ask(version string) (*upstream, error) {
	out, err := output(".", "go", "mod", "download", "-json", kubernetes.path+"@"+version)
	// of which Error says why it failed
	var downloaded struct{ Dir, Version, Error string }
	if json.Unmarshal(out, &downloaded) == nil && downloaded.Error != "" {
		return nil, errors.New(downloaded.Error)
	}
	if err != nil {
		return nil, err
	}
	u := &upstream{version: downloaded.Version}
	module, err := parse(filepath.Join(downloaded.Dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	for _, r := range module.Require {
		if strings.HasPrefix(r.Mod.Path, "k8s.io/") && r.Mod.Version == "v0.0.0" {
			u.staged = append(u.staged, r.Mod.Path)
		}
	}
	constants, err := stringsOf(filepath.Join(downloaded.Dir, "cmd/kubeadm/app/constants/constants.go"))
	if err != nil {
		return nil, err
	}
	// kubeadm's tag of etcd is the version without its v, and with a revision of the image
	etcd, _, _ := strings.Cut(constants["DefaultEtcdVersion"], "-")
	u.etcd, u.coreDNS = "v"+etcd, constants["CoreDNSVersion"]
	if !semver.IsValid(u.etcd) || !semver.IsValid(u.coreDNS) {
		return nil, fmt.Errorf("kubeadm of %s names etcd %q and CoreDNS %q", version, constants["DefaultEtcdVersion"], u.coreDNS)
	}
	return u, nil
}

// stringsOf reads the constants of a Go file that are strings.
func stringsOf(path string) (map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != len(spec.Values) {
			return true
		}
		for i, name := range spec.Names {
			if literal, ok := spec.Values[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				found[name.Name], _ = strconv.Unquote(literal.Value)
			}
		}
		return true
	})
	return found, nil
}

// refusePlane refuses the minor version of the plane: more than one file requires it.
func refusePlane(version string) error {
	if semver.MajorMinor(versions.Plane().Version) == semver.MajorMinor(version) {
		return fmt.Errorf("%s is the minor version of the plane, whose libraries Cluster API chooses: change the requirements of all modules of go.work", version)
	}
	return nil
}

// pin writes the requirements of a version's programs. It takes the place of another patch version of its minor.
func pin(version string) error {
	if err := refusePlane(version); err != nil {
		return err
	}
	u, err := ask(version)
	if err != nil {
		return err
	}
	minor := semver.MajorMinor(version)
	staged := "v0" + strings.TrimPrefix(u.version, "v1")
	fresh := &modfile.File{}
	if err := errors.Join(fresh.AddModuleStmt("github.com/slipway-dev/slipway/"+kubernetes.module), fresh.AddRequire(kubernetes.path, u.version)); err != nil {
		return err
	}
	for _, path := range u.staged {
		if err := fresh.AddRequire(path, staged); err != nil {
			return err
		}
	}
	if err := kubernetes.write(minor, fresh); err != nil {
		return err
	}
	plane := versions.Plane()
	if err := etcd.pin(minor, u.etcd, plane.Etcd); err != nil {
		return err
	}
	return coreDNS.pin(minor, u.coreDNS, plane.CoreDNS)
}

// pin requires a version of a program that is built beside others. What it shares with the workspace is at least as new
// as there, so that packages compile once. Where it is that of the plane's Kubernetes, go.mod has it already.
func (p program) pin(minor, version, planes string) error {
	if version == planes {
		return p.remove(minor)
	}
	module := &modfile.File{}
	if err := errors.Join(module.AddModuleStmt("github.com/slipway-dev/slipway/"+p.module), module.AddRequire(p.path, version)); err != nil {
		return err
	}
	selected, err := workspace()
	if err != nil {
		return err
	}
	for {
		if err := p.write(minor, module); err != nil {
			return err
		}
		if module, err = parse(p.file(minor) + ".mod"); err != nil {
			return err
		}
		raised := false
		for _, r := range module.Require {
			if at := selected[r.Mod.Path]; !strings.HasPrefix(r.Mod.Path, p.family) && semver.Compare(at, r.Mod.Version) > 0 {
				raised = true
				if err := module.AddRequire(r.Mod.Path, at); err != nil {
					return err
				}
			}
		}
		if !raised {
			return nil
		}
	}
}

// workspace has the version of each module that go.work selects among the requirements of its own.
func workspace() (map[string]string, error) {
	content, err := os.ReadFile("go.work")
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork("go.work", content, nil)
	if err != nil {
		return nil, err
	}
	selected := map[string]string{}
	for _, use := range work.Use {
		module, err := parse(filepath.Join(use.Path, "go.mod"))
		if err != nil {
			return nil, err
		}
		for _, r := range module.Require {
			if semver.Compare(r.Mod.Version, selected[r.Mod.Path]) > 0 && !strings.HasPrefix(r.Mod.Path, "github.com/slipway-dev/") {
				selected[r.Mod.Path] = r.Mod.Version
			}
		}
	}
	return selected, nil
}

// write tidies the requirements of one program alone, and puts them into its file.
func (p program) write(minor string, module *modfile.File) error {
	work, err := os.MkdirTemp("", "slipway-kubernetes-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	sources, err := filepath.Glob(filepath.Join(p.module, p.dir, "*.go"))
	if err != nil {
		return err
	}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		if err := copyFile(source, filepath.Join(work, filepath.Base(source))); err != nil {
			return err
		}
	}
	own, err := parse(filepath.Join(p.module, "go.mod"))
	if err != nil {
		return err
	}
	if err := module.AddGoStmt(own.Go.Version); err != nil {
		return err
	}
	module.Cleanup()
	if err := os.WriteFile(filepath.Join(work, "go.mod"), modfile.Format(module.Syntax), 0o644); err != nil {
		return err
	}
	if _, err := output(work, "go", "mod", "tidy"); err != nil {
		return err
	}
	for _, suffix := range []string{".mod", ".sum"} {
		if err := copyFile(filepath.Join(work, "go"+suffix), p.file(minor)+suffix); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the requirements of a program for a minor version, if it has any.
func (p program) remove(minor string) error {
	for _, suffix := range []string{".mod", ".sum"} {
		if err := os.Remove(p.file(minor) + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func parse(path string) (*modfile.File, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(path, content, nil)
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

// output runs a program outside of the workspace.
func output(dir, name string, args ...string) ([]byte, error) {
	command := exec.Command(name, args...) //nolint:gosec,nolintlint // as command
	command.Dir, command.Env, command.Stderr = dir, append(os.Environ(), "GOWORK=off"), os.Stderr
	out, err := command.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w", strings.Join(command.Args, " "), err)
	}
	return out, nil
}
