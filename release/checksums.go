package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// writeChecksums lists every file of the release, in the order of their names, as
// `sha256sum --check` reads it.
func (r *release) writeChecksums(context.Context) error {
	var sums bytes.Buffer
	for _, dir := range r.dirs() {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(r.out, path)
			if err != nil {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), filepath.ToSlash(name))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), sums.Bytes(), 0o644)
}

// sign has slipway-bundle of this tree sign the checksums. Without a key there is no
// signature of an earlier release either.
func (r *release) sign(ctx context.Context) error {
	if r.key == "" {
		err := os.Remove(filepath.Join(r.out, "SHA256SUMS.note"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	key, err := filepath.Abs(r.key)
	if err != nil {
		return err
	}
	return r.bundleTool(ctx, "sign", "--private-key", key, "--version", r.version, "--release", r.out)
}

// bundleTool runs slipway-bundle of this tree.
func (r *release) bundleTool(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "-trimpath", "-buildvcs=false", "."}, args...)...)
	cmd.Dir = filepath.Join(r.source, "cmd", "slipway-bundle")
	cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(r.source, "hack", "bundle.work"), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("slipway-bundle %s: %w: %s", args[0], err, out)
	}
	return nil
}
