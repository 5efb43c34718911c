package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/internal/testenv/source"
)

// tree is the code of this repository: directories, and what their packages import of it.
type tree struct {
	// imports are the directories that the code and the tests of a directory import.
	imports map[string][]string
	// deep are the directories that have a test of the deep suite.
	deep []string
}

// readTree reads the Go files below root, tests among them, whatever their build tags. Only imports
// are parsed.
func readTree(root string) (*tree, error) {
	t := &tree{imports: map[string][]string{}}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch base := entry.Name(); {
		case !entry.IsDir():
			return t.add(path, name)
		case name == ".":
		case base[0] == '.', base[0] == '_', base == "testdata", name == "bin", name == "out":
			return filepath.SkipDir
		}
		return nil
	})
	slices.Sort(t.deep)
	t.deep = slices.Compact(t.deep)
	return t, err
}

func (t *tree) add(path, name string) error {
	if !strings.HasSuffix(name, ".go") {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, content, parser.ImportsOnly)
	if err != nil {
		return err
	}
	dir := filepath.Dir(name)
	if t.imports[dir] == nil {
		t.imports[dir] = []string{}
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if folder, ok := source.Folder(imported); ok && !slices.Contains(t.imports[dir], folder) {
			t.imports[dir] = append(t.imports[dir], folder)
		}
	}
	if strings.HasSuffix(name, "_test.go") && bytes.Contains(content, []byte("level.Deep(")) {
		t.deep = append(t.deep, dir)
	}
	return nil
}

// depends returns the directories with code that an area's tests and programs are made of.
func (t *tree) depends(a area) map[string]bool {
	found := map[string]bool{}
	var add func(dir string)
	add = func(dir string) {
		if found[dir] {
			return
		}
		found[dir] = true
		for _, of := range t.imports[dir] {
			add(of)
		}
	}
	for _, dir := range slices.Concat(a.packages, a.programs) {
		below, all := strings.CutSuffix(dir, "/...")
		switch {
		case dir == deepTests:
			for _, of := range t.deep {
				add(of)
			}
		case all:
			for of := range t.imports {
				if of == below || strings.HasPrefix(of, below+"/") {
					add(of)
				}
			}
		default:
			add(dir)
		}
	}
	return found
}

// owner returns the nearest directory at or above a file that holds Go code, or "".
func (t *tree) owner(file string) string {
	for dir := filepath.Dir(file); dir != "."; dir = filepath.Dir(dir) {
		if _, ok := t.imports[dir]; ok {
			return dir
		}
	}
	return ""
}

// affected returns the areas that depend on one of the files, in the order of the table. A change
// of what the modules require, or of how things are built, affects each of them.
func (t *tree) affected(files []string) []area {
	var all bool
	changed := map[string]bool{}
	for _, file := range files {
		switch base := filepath.Base(file); {
		case base == "go.mod", base == "go.work", base == "Makefile", strings.HasSuffix(base, ".mk"):
			all = true
		default:
			// a directory that an area names without Go code of its own, as that of a node bundle
			top, _, _ := strings.Cut(file, "/")
			changed[top] = true
			if dir := t.owner(file); dir != "" {
				changed[dir] = true
			}
		}
	}
	var found []area
	for _, a := range areas {
		depends := t.depends(a)
		if all || slices.ContainsFunc(slices.Collect(maps.Keys(changed)), func(dir string) bool { return depends[dir] }) {
			found = append(found, a)
		}
	}
	return found
}

// changes returns the files that differ from base, those that git does not know yet among them;
// ok is false where there is no git, as in an archive of the sources.
func changes(root, base string) (files []string, ok bool) {
	if base == "" {
		base = "HEAD~1"
		if out, err := git(root, "merge-base", "HEAD", "@{upstream}"); err == nil {
			if head, err := git(root, "rev-parse", "HEAD"); err == nil && head != out {
				base = out
			}
		}
	}
	differ, err := git(root, "diff", "--name-only", "--no-renames", base)
	if err != nil {
		return nil, false
	}
	unknown, err := git(root, "ls-files", "--others", "--exclude-standard")
	return strings.Fields(differ + "\n" + unknown), err == nil
}

func git(root string, arguments ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", root}, arguments...)...).Output()
	return strings.TrimSpace(string(out)), err
}
