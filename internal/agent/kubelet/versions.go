package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/command"
	"github.com/slipway-dev/slipway/internal/agent/hostfs"
)

// linkDirectory is where the programs of the chosen version are linked.
const linkDirectory = "/usr/local/bin"

// versionTimeout bounds `kubelet --version`.
const versionTimeout = 20 * time.Second

// VersionUnavailableError says that the host has not the wanted version.
type VersionUnavailableError struct {
	Wanted      string
	Installed   []string
	Directories []string
}

// Error implements error.
func (e *VersionUnavailableError) Error() string {
	have := "none"
	if len(e.Installed) > 0 {
		have = strings.Join(e.Installed, ", ")
	}
	return fmt.Sprintf("Kubernetes %s is not installed on this host (found: %s); install kubelet, kubeadm and kubectl of it into %s",
		e.Wanted, have, filepath.Join(e.Directories[0], e.Wanted))
}

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

// Select makes PATH offer the wanted version. Nothing is done when it does.
func (v Versions) Select(ctx context.Context, wanted string) error {
	if wanted == "" || v.offered(ctx, wanted) {
		return nil
	}
	for _, dir := range v.Directories {
		from := filepath.Join(dir, wanted)
		if _, err := os.Stat(filepath.Join(v.Root.Path(from), "kubelet")); err == nil {
			return v.link(from)
		}
	}
	return &VersionUnavailableError{Wanted: wanted, Installed: v.Installed(ctx), Directories: v.Directories}
}

// offered reports whether both kubelet and kubeadm on PATH are of the version.
func (v Versions) offered(ctx context.Context, wanted string) bool {
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

// link replaces the links one by one; each is either old or new.
func (v Versions) link(from string) error {
	target := v.Root.Path(linkDirectory)
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	for _, program := range []string{"kubeadm", "kubectl", "kubelet"} {
		if _, err := os.Stat(filepath.Join(v.Root.Path(from), program)); err != nil {
			continue
		}
		link := filepath.Join(target, program)
		if err := os.RemoveAll(link + ".slipway"); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join(from, program), link+".slipway"); err != nil {
			return err
		}
		if err := os.Rename(link+".slipway", link); err != nil {
			return err
		}
	}
	return nil
}
