package durable_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/testenv/powercut"
)

// tree lists what is below a directory, temporary files of Write apart: nobody finds those again.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir || strings.HasPrefix(e.Name(), durable.Temporary("f")) {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		line := info.Mode().String() + " " + strings.TrimPrefix(path, dir)
		if target, err := os.Readlink(path); err == nil {
			line += " -> " + target
		} else if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + string(data)
		}
		found = append(found, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(found, "\n")
}

// The power is cut at each change: the path is as it was or as it shall be, and the same call
// gets there afterwards and leaves nothing else.
func TestPowerCutAtEachChange(t *testing.T) {
	for name, tt := range map[string]struct {
		do func(path string) error
		// loses is true for what removes a directory, which may be half gone.
		loses bool
	}{
		"Write": {do: func(p string) error { return durable.Write(p, []byte("new"), 0o640) }},
		"WriteFrom": {do: func(p string) error {
			return durable.WriteFrom(p, 0o640, func(w io.Writer) error {
				_, err := io.WriteString(w, "new")
				return err
			})
		}},
		"Replace":   {do: func(p string) error { return durable.Replace(p, []byte("new"), 0o640, os.Getuid(), os.Getgid()) }},
		"WriteJSON": {do: func(p string) error { return durable.WriteJSON(p, "new", 0o640) }},
		"Link":      {do: func(p string) error { return durable.Link("elsewhere", p) }},
		"Remove":    {do: durable.Remove},
		"Dir.Replace": {do: func(p string) error {
			return durable.WithParent("", p, func(d *durable.Dir, name string) error {
				return d.Replace(name, []byte("new"), 0o640, os.Getuid(), os.Getgid())
			})
		}},
		"Dir.Link": {do: func(p string) error {
			return durable.WithParent("", p, func(d *durable.Dir, name string) error { return d.Link("elsewhere", name) })
		}},
		"Dir.Remove": {do: func(p string) error {
			return durable.WithParent("", p, func(d *durable.Dir, name string) error { return d.Remove(name) })
		}},
		"MakeParents": {do: func(p string) error {
			return durable.MakeParents("", filepath.Join(filepath.Dir(p), "d/f"), 0o710, durable.Keep, durable.Keep)
		}},
		"Dir.RemoveAll": {do: func(p string) error {
			return durable.WithDir("", filepath.Dir(p), func(d *durable.Dir) error { return d.RemoveAll("full") })
		}, loses: true},
		"Mkdir":     {do: func(p string) error { return durable.Mkdir(filepath.Join(filepath.Dir(p), "d"), 0o710) }},
		"RemoveAll": {do: func(p string) error { return durable.RemoveAll(filepath.Join(filepath.Dir(p), "full")) }, loses: true},
	} {
		t.Run(name, func(t *testing.T) {
			start := func() string {
				dir := t.TempDir()
				path := filepath.Join(dir, "f")
				err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.MkdirAll(filepath.Join(dir, "full", "deep"), 0o755))
				for i := range 3 {
					err = errors.Join(err, os.WriteFile(filepath.Join(dir, "full", "deep", fmt.Sprint(i)), nil, 0o600))
				}
				if err != nil {
					t.Fatal(err)
				}
				return path
			}
			before := tree(t, filepath.Dir(start()))
			path := start()
			whole := powercut.At(t, filepath.Dir(path), 0)
			if err := tt.do(path); err != nil {
				t.Fatal(err)
			}
			after := tree(t, filepath.Dir(path))
			if after == before || len(whole.Changes) == 0 {
				t.Fatalf("%q changed nothing:\n%s", whole.Changes, after)
			}
			for n := 1; n <= len(whole.Changes); n++ {
				path := start()
				cut := powercut.At(t, filepath.Dir(path), n)
				if err := tt.do(path); !errors.Is(err, powercut.ErrCut) {
					t.Fatalf("cut at %q: %v", cut.Changes, err)
				}
				cut.On()
				got := tree(t, filepath.Dir(path))
				staged := strings.ReplaceAll(got, ".slipway-", "")
				if data, err := os.ReadFile(path); err != nil || string(data) != "old" {
					t.Errorf("cut at %q: %q, %v", cut.Changes, data, err)
				}
				if staged == got && got != before && !tt.loses {
					t.Errorf("cut at %q: neither as it was nor as it shall be:\n%s", cut.Changes, got)
				}
				if err := tt.do(path); err != nil {
					t.Fatalf("cut at %q, then again: %v", cut.Changes, err)
				}
				if got := tree(t, filepath.Dir(path)); got != after {
					t.Errorf("cut at %q, then again:\n%s\nwant\n%s", cut.Changes, got, after)
				}
			}
		})
	}
}

// A removal takes away what an interrupted change of the same path left.
func TestRemoveAfterPowerCut(t *testing.T) {
	for n := 1; ; n++ {
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		cut := powercut.At(t, dir, n)
		err := durable.Replace(path, []byte("new"), 0o600, durable.Keep, durable.Keep)
		cut.On()
		if err := durable.Remove(path); err != nil {
			t.Fatal(err)
		}
		if left := tree(t, dir); left != "" {
			t.Errorf("cut at %q: left %s", cut.Changes, left)
		}
		if err == nil {
			return
		}
	}
}

func TestReplaceSetsSpecialBits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	const mode = 0o755 | fs.ModeSetuid
	if err := durable.Replace(path, nil, mode, os.Getuid(), os.Getgid()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != mode {
		t.Errorf("mode %v, want %v: %v", info.Mode(), mode, err)
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	unlock, err := durable.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := durable.TryLock(dir); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second lock: %v", err)
	}
	unlock()
	again, err := durable.TryLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	again()
	if _, err := durable.TryLock(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a lock on nothing: %v", err)
	}
}

func TestReadJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var got map[string]int
	if found, err := durable.ReadJSON(path, &got); found || err != nil {
		t.Errorf("no file: %t, %v", found, err)
	}
	if err := durable.WriteJSON(path, map[string]int{"a": 1}, 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := durable.ReadJSON(path, &got); !found || err != nil || got["a"] != 1 {
		t.Errorf("%v, %t, %v", got, found, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := durable.ReadJSON(path, &got); err == nil {
		t.Error("no error for a torn file")
	}
}
