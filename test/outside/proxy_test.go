package outside

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/slipway-dev/slipway/internal/testenv/level"
)

const (
	rootModule = "github.com/slipway-dev/slipway"
	sdkModule  = rootModule + "/sdk"
	// tag is the version the tree is served as.
	tag = "v0.99.0"
)

// published are the modules that others may require, by their folder.
var published = map[string]string{".": rootModule, "sdk": sdkModule, "cmd/slipway-bundle": rootModule + "/cmd/slipway-bundle"}

// file is a file of a module: where it is, and its path within the module.
type file struct{ name, path string }

func (f file) Path() string                 { return f.path }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(f.name) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.name) }

// serve writes the tree into a folder that the go command takes for a module proxy, and
// returns its URL.
func serve(t *testing.T) string {
	t.Helper()
	proxy := t.TempDir()
	for folder, path := range published {
		dir := filepath.Join("../..", folder)
		escaped, err := module.EscapePath(path)
		if err != nil {
			t.Fatal(err)
		}
		versions := filepath.Join(proxy, escaped, "@v")
		if err := os.MkdirAll(versions, 0o755); err != nil {
			t.Fatal(err)
		}
		goMod := filepath.Join(versions, tag+".mod")
		tagged(t, filepath.Join(dir, "go.mod"), goMod)
		info, err := json.Marshal(map[string]any{"Version": tag, "Time": time.Unix(0, 0).UTC()})
		if err != nil {
			t.Fatal(err)
		}
		var archive bytes.Buffer
		if err := zip.Create(&archive, module.Version{Path: path, Version: tag}, tree(t, dir, goMod)); err != nil {
			t.Fatalf("%s cannot be published: %v", path, err)
		}
		for name, data := range map[string][]byte{"list": []byte(tag + "\n"), tag + ".info": info, tag + ".zip": archive.Bytes()} {
			if err := os.WriteFile(filepath.Join(versions, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return "file://" + proxy
}

// tagged writes a go.mod as a release tags it: with the other modules of the same version.
func tagged(t *testing.T, name, to string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := modfile.Parse(name, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range published {
		if slices.ContainsFunc(parsed.Require, func(r *modfile.Require) bool { return r.Mod.Path == other }) {
			if err := parsed.AddRequire(other, tag); err != nil {
				t.Fatal(err)
			}
		}
	}
	data, err = parsed.Format()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// tree lists the files of a module that git has or would take; the module zip leaves out
// the modules below it.
func tree(t *testing.T, dir, goMod string) []zip.File {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	list.Dir = dir
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list the files of %s: %v", dir, err)
	}
	var files []zip.File
	for path := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		f := file{name: filepath.Join(dir, path), path: path}
		if path == "go.mod" {
			f.name = goMod
		}
		if info, err := f.Lstat(); err != nil || !info.Mode().IsRegular() {
			continue // deleted in the work tree, or a link, which modules don't have
		}
		files = append(files, f)
	}
	return files
}

// outsider is a folder outside of the repository.
type outsider struct {
	t   *testing.T
	dir string
	env []string
}

func newOutsider(t *testing.T) *outsider {
	t.Helper()
	level.Deep(t)
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	had := strings.Fields(string(cache))
	// A module cache of its own: the version served here is another one in each run. What
	// the machine has downloaded before is not downloaded again.
	env := append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath -modcacherw", "GOMODCACHE="+t.TempDir(), "GOBIN="+t.TempDir(),
		"GOSUMDB=off", "GOPROXY="+serve(t)+",file://"+had[0]+"/cache/download,"+had[1])
	return &outsider{t: t, dir: t.TempDir(), env: env}
}

// run runs a program and returns what it prints.
func (o *outsider) run(name string, args ...string) string {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), name, args...)
	cmd.Dir, cmd.Env = o.dir, o.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// bin is the path of an installed program.
func (o *outsider) bin(name string) string {
	for _, variable := range o.env {
		if dir, ok := strings.CutPrefix(variable, "GOBIN="); ok {
			return filepath.Join(dir, name)
		}
	}
	return name
}
