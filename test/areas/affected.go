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
)

// tree is the code of this repository: directories, and what their packages import of it.
type tree struct {
	// imports are the directories that the code and the tests of a directory import.
	imports map[string][]string
	// deep are the directories that have a test of the deep suite.
	deep []string
}

// reader collects what a tree is made of.
type reader struct {
	modules  map[string]string          // directory to module path
	imported map[string]map[string]bool // directory to import paths
	deep     map[string]bool
}

// readTree reads the Go files below root, whatever their build tags. Only imports are parsed.
func readTree(root string) (*tree, error) {
	r := reader{map[string]string{}, map[string]map[string]bool{}, map[string]bool{}}
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
			return r.file(path, name)
		case name == ".":
		case base[0] == '.', base[0] == '_', base == "testdata", name == "bin", name == "out":
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	paths := map[string]string{} // import path to directory
	for dir := range r.imported {
		paths[importPath(r.modules, dir)] = dir
	}
	t := &tree{imports: map[string][]string{}, deep: slices.Sorted(maps.Keys(r.deep))}
	for dir, all := range r.imported {
		t.imports[dir] = []string{}
		for path := range all {
			if of, ok := paths[path]; ok {
				t.imports[dir] = append(t.imports[dir], of)
			}
		}
	}
	return t, nil
}

func (r *reader) file(path, name string) error {
	base, dir := filepath.Base(name), filepath.Dir(name)
	if base != "go.mod" && !strings.HasSuffix(base, ".go") {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if base == "go.mod" {
		_, rest, _ := bytes.Cut(content, []byte("module "))
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		r.modules[dir] = strings.TrimSpace(string(line))
		return nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, content, parser.ImportsOnly)
	if err != nil {
		return err
	}
	if r.imported[dir] == nil {
		r.imported[dir] = map[string]bool{}
	}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		r.imported[dir][path] = true
	}
	if strings.HasSuffix(base, "_test.go") && bytes.Contains(content, []byte("level.Deep(")) {
		r.deep[dir] = true
	}
	return nil
}

func importPath(modules map[string]string, dir string) string {
	for module := dir; ; module = filepath.Dir(module) {
		if path, ok := modules[module]; ok {
			rel, _ := filepath.Rel(module, dir)
			return filepath.ToSlash(filepath.Join(path, rel))
		}
		if module == "." {
			return dir
		}
	}
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
