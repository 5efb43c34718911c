package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// versionTimeout bounds `kubelet --version`.
const versionTimeout = 20 * time.Second

// Versions finds and selects the Kubernetes versions of the host.
type Versions struct {
	Root   hostfs.Root
	Runner command.Runner
	// Directories hold one directory per version, for example
	// /opt/slipway/kubernetes/v1.36.3/{kubelet,kubeadm,kubectl}.
	Directories []string
	// Cache keeps what programs answered. May be nil.
	Cache *Cache
}

// Installed lists the versions of the host, sorted, without duplicates.
func (v Versions) Installed(ctx context.Context) []string {
	var found []string
	for _, dir := range v.Directories {
		kubelets, _ := filepath.Glob(filepath.Join(v.Root.Path(dir), "v*", "kubelet"))
		for _, path := range kubelets {
			found = append(found, filepath.Base(filepath.Dir(path)))
		}
	}
	if current := v.current(ctx, "kubelet", "--version"); current != "" {
		found = append(found, current)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Check refuses a version that the host does not have.
func (v Versions) Check(ctx context.Context, wanted string) error {
	if wanted == "" {
		return nil
	}
	_, err := v.Program(ctx, wanted, "kubelet")
	return err
}

// Program returns how to call a program of the version: by its name when PATH has
// the version, else by its path.
func (v Versions) Program(ctx context.Context, wanted, program string) (string, error) {
	if v.Offered(ctx, wanted) {
		return program, nil
	}
	if dir := v.directory(wanted); dir != "" {
		return v.Root.Path(filepath.Join(dir, program)), v.checkUnit(ctx)
	}
	have := "none"
	if installed := v.Installed(ctx); len(installed) > 0 {
		have = strings.Join(installed, ", ")
	}
	return "", unavailable("Kubernetes %s is not installed on this host (found: %s); install kubelet, kubeadm and kubectl of it into %s",
		wanted, have, filepath.Join(v.Directories[0], wanted))
}

// directory of a version with its programs; empty when there is none.
func (v Versions) directory(wanted string) string {
	for _, parent := range v.Directories {
		dir := filepath.Join(parent, wanted)
		complete := wanted != ""
		for _, program := range []string{"kubelet", "kubeadm"} {
			if _, err := os.Stat(filepath.Join(v.Root.Path(dir), program)); err != nil {
				complete = false
			}
		}
		if complete {
			return dir
		}
	}
	return ""
}

// Select makes PATH offer the wanted version. Nothing is done when it does.
func (v Versions) Select(ctx context.Context, wanted string) error {
	if wanted == "" || v.Offered(ctx, wanted) {
		return nil
	}
	if _, err := v.Program(ctx, wanted, "kubelet"); err != nil {
		return err
	}
	return v.link(v.directory(wanted))
}

// unitProgram finds what a unit file starts.
var unitProgram = regexp.MustCompile(`(?m)^ExecStart=[-@:+!]*(/\S*)`)

// UnitProgram returns what a unit file with its drop-ins starts; empty for nothing. The last
// command counts.
func UnitProgram(unit string) string {
	found := unitProgram.FindAllStringSubmatch(unit, -1)
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1][1]
}

// checkUnit refuses a host whose kubelet unit names one file, as those of packages
// do: choosing a version on PATH would not reach it.
func (v Versions) checkUnit(ctx context.Context) error {
	if !v.Runner.Has("systemctl") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	// A unit that is not there yet is no reason to refuse.
	out, _ := v.Runner.Run(ctx, "systemctl", "cat", "kubelet")
	program, linked := UnitProgram(string(out)), filepath.Join(linkDirectory, "kubelet")
	if program == "" || program == linked {
		return nil
	}
	return unavailable("kubelet.service starts %s, whatever version is chosen; add a drop-in with \"ExecStart=\" and the same command line on %s, then `systemctl daemon-reload`",
		program, linked)
}

func unavailable(format string, args ...any) error {
	return &Error{Reason: "VersionUnavailable", Permanent: true, Message: fmt.Sprintf(format, args...)}
}

// Offered reports whether both kubelet and kubeadm on PATH are of the version.
func (v Versions) Offered(ctx context.Context, wanted string) bool {
	return v.current(ctx, "kubelet", "--version") == wanted && v.current(ctx, "kubeadm", "version", "-o", "short") == wanted
}

// current asks a program on PATH; empty when it is not there or does not answer.
func (v Versions) current(ctx context.Context, program string, args ...string) string {
	if !v.Runner.Has(program) {
		return ""
	}
	return v.Cache.answer(program, func() string {
		ctx, cancel := context.WithTimeout(ctx, versionTimeout)
		defer cancel()
		out, err := v.Runner.Run(ctx, program, args...)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(string(out)), "Kubernetes"))
	})
}
