package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

const nobody = 65534

// Whoever owns a part of the way to a program, or may write to it, decides what runs.
func TestCheckReplaceable(t *testing.T) {
	if os.Geteuid() != 0 {
		rights.Skip(t, "needs root, to give files away")
	}
	for name, c := range map[string]struct {
		// spoil gets the directory above that of the program.
		spoil func(dir string) error
		// at is what is told, below that directory; empty for what passes.
		at   string
		path string
		all  bool
	}{
		"root's alone":             {spoil: func(string) error { return nil }},
		"the program is another's": {spoil: func(dir string) error { return os.Chown(filepath.Join(dir, "bin/slipway"), nobody, nobody) }, at: "bin/slipway"},
		"all may write it":         {spoil: func(dir string) error { return os.Chmod(filepath.Join(dir, "bin/slipway"), 0o757) }, at: "bin/slipway"},
		"its group may write it":   {spoil: func(dir string) error { return os.Chmod(filepath.Join(dir, "bin/slipway"), 0o775) }, at: "bin/slipway"},
		"the directory of another": {spoil: func(dir string) error { return os.Chown(filepath.Join(dir, "bin"), nobody, nobody) }, at: "bin"},
		"a directory above":        {spoil: func(dir string) error { return os.Chown(dir, nobody, nobody) }, at: "."},
		"a directory for all":      {spoil: func(dir string) error { return os.Chmod(dir, 0o777) }, at: "."},
		"a directory like /tmp":    {spoil: func(dir string) error { return os.Chmod(dir, 0o777|os.ModeSticky) }},
		"a link":                   {spoil: func(dir string) error { return os.Symlink("bin", filepath.Join(dir, "l")) }, path: "l/slipway"},
		"a link of another": {spoil: func(dir string) error {
			return errors.Join(os.Symlink("bin", filepath.Join(dir, "l")), os.Lchown(filepath.Join(dir, "l"), nobody, nobody))
		}, path: "l/slipway", at: "l"},
		"a link that leads to another's": {spoil: func(dir string) error {
			return errors.Join(os.Symlink(filepath.Join(dir, "bin/../bin/slipway"), filepath.Join(dir, "l")), os.Chown(filepath.Join(dir, "bin"), nobody, nobody))
		}, path: "l", at: "bin"},
		"a link in a circle":    {spoil: func(dir string) error { return os.Symlink("l", filepath.Join(dir, "l")) }, path: "l", at: "l"},
		"what is not there":     {spoil: func(string) error { return nil }, path: "bin/none/of/it"},
		"what anybody may make": {spoil: func(dir string) error { return os.Chmod(dir, 0o777|os.ModeSticky) }, path: "none", at: "."},
		"what anybody may make, by another way": {spoil: func(dir string) error {
			return errors.Join(os.Chmod(dir, 0o777|os.ModeSticky), os.Symlink(dir+"/none", filepath.Join(dir, "bin/l")))
		}, path: "bin/l", at: "."},
		"what anybody may make, on the way back": {spoil: func(dir string) error { return os.Chmod(dir, 0o777|os.ModeSticky) }, path: "bin/../none", at: "."},
		"a directory and what is in it":          {spoil: func(string) error { return nil }, path: "bin", all: true},
		"another's in the directory":             {spoil: func(dir string) error { return os.Chown(filepath.Join(dir, "bin/slipway"), nobody, nobody) }, path: ".", all: true, at: "bin/slipway"},
		"which only the way leads to":            {spoil: func(dir string) error { return os.Chown(filepath.Join(dir, "bin/slipway"), nobody, nobody) }, path: "bin"},
		"a directory that is not there":          {spoil: func(string) error { return nil }, path: "none", all: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(dir, "bin/slipway")
			if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Dir(program), 0o755), os.WriteFile(program, nil, 0o755), c.spoil(dir)); err != nil {
				t.Fatal(err)
			}
			path := program
			if c.path != "" {
				path = dir + "/" + c.path
			}
			check := CheckReplaceable
			if c.all {
				check = CheckAllReplaceable
			}
			err = check(path)
			var open *ReplaceableError
			switch {
			case c.at == "":
				if err != nil {
					t.Error(err)
				}
			case name == "a link in a circle":
				if err == nil {
					t.Error("it passes")
				}
			case !errors.As(err, &open) || open.Path != path || open.At != filepath.Join(dir, c.at) || !strings.Contains(err.Error(), open.At):
				t.Errorf("got %v, want %s", err, filepath.Join(dir, c.at))
			}
		})
	}
}

// What is emptied at a boot is anybody's after it.
func TestCheckReplaceableInWhatIsEmptied(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "slipway")
	if err := os.WriteFile(file, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	var open *ReplaceableError
	if err := CheckReplaceable(file, dir); !errors.As(err, &open) || !open.Emptied || !strings.Contains(err.Error(), "emptied") {
		t.Errorf("got %v", err)
	}
}
