package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// tree is a copy of the repository that may be broken.
type tree struct{ dir string }

// newTree copies every file that git knows or would know, and lends what was built.
func newTree(ctx context.Context) (*tree, error) {
	root, err := output(ctx, "", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	files, err := output(ctx, root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "slipway-mutation-")
	if err != nil {
		return nil, err
	}
	t := &tree{dir: dir}
	for name := range strings.SplitSeq(strings.Trim(files, "\x00"), "\x00") {
		if err := copyFile(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			t.remove()
			return nil, err
		}
	}
	return t, linkEntries(filepath.Join(root, "bin"), filepath.Join(dir, "bin"))
}

// linkEntries has a folder with what another one has, but for the programs that tests build:
// those of a broken tree are broken.
func linkEntries(from, to string) error {
	entries, err := os.ReadDir(from)
	errs := []error{err, os.Mkdir(to, 0o755)}
	for _, entry := range entries {
		if entry.Name() != "tested" {
			errs = append(errs, os.Symlink(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())))
		}
	}
	return errors.Join(errs...)
}

func (t *tree) remove() { _ = os.RemoveAll(t.dir) }

// try breaks the tree, judges the rule and mends the tree.
func (t *tree) try(ctx context.Context, m mutation, patience time.Duration) error {
	path := filepath.Join(t.dir, m.File)
	whole, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	broken := strings.ReplaceAll(string(whole), m.Old, m.New)
	if broken == string(whole) {
		return fmt.Errorf("%s has nothing that the mutation replaces", m.File)
	}
	if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
		return err
	}
	verdict := t.judge(ctx, m, patience)
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		return err
	}
	return verdict
}

// judge runs one rule. What counts is that the rule itself fails: a provider that does
// not compile or start shows nothing.
func (t *tree) judge(ctx context.Context, m mutation, patience time.Duration) error {
	name, in := m.Test, m.Package
	if name == "" {
		name, in = "TestConformance/"+cmp.Or(m.Contract, "v1beta2")+"/"+m.Rule, "test/conformance/provider"
	}
	name = strings.ReplaceAll(name, " ", "_") // as the report has it
	pattern := "^" + strings.ReplaceAll(name, "/", "$/^") + "$"
	command := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-run", pattern, "./"+in)
	command.Dir, command.WaitDelay = t.dir, 10*time.Second
	command.Env = append(os.Environ(), level.Variable+"=1", poll.Variable+"="+patience.String())
	// Those who are told to end clean up behind themselves.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	out, err := command.CombinedOutput()
	switch {
	case bytes.Contains(out, []byte("--- FAIL: "+name+" ")):
		return nil
	case err == nil && bytes.Contains(out, []byte("--- PASS: "+name+" ")):
		return errAlive
	default:
		return fmt.Errorf("the rule was not judged: %w\n%s", err, tail(out))
	}
}

func tail(out []byte) []byte { return out[max(0, len(out)-2000):] }

func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if os.IsNotExist(err) {
		// git knows it, and it was deleted.
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

func output(ctx context.Context, dir string, command ...string) (string, error) {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir = dir
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
