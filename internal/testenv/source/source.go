package source

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is the path of the root module. Those of the other modules are below it, as their
// folders are below the root.
const Module = "github.com/slipway-dev/slipway"

// Tree is the source of the repository for Linux on amd64, without tests.
type Tree struct {
	Files *token.FileSet
	// Packages by folder, with slashes, relative to the root.
	Packages map[string]*Package
	root     string
	checked  map[string]*Checked
	foreign  map[string]*types.Package
}

// Package is one folder.
type Package struct {
	Folder string
	Files  []*File
}

// File is one file of a package.
type File struct {
	// Name is the path from the root, with slashes.
	Name   string
	Syntax *ast.File
	// Imports are paths by the name that the file uses for them.
	Imports map[string]string
}

// Generated says whether a generator wrote the file.
func (f *File) Generated() bool { return ast.IsGenerated(f.Syntax) }

// skipped are folders without source of this repository.
var skipped = []string{".git", "bin", "out", "testdata", "docs", "zz_rendered", "node_modules"}

// Read parses every package below root.
func Read(root string) (*Tree, error) {
	t := &Tree{Files: token.NewFileSet(), Packages: map[string]*Package{}, root: root, checked: map[string]*Checked{}}
	context := build.Default
	context.GOOS, context.GOARCH, context.CgoEnabled = "linux", "amd64", false
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && slices.Contains(skipped, entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		if match, err := context.MatchFile(filepath.Dir(name), filepath.Base(name)); err != nil || !match {
			return err
		}
		return t.add(name)
	})
	if err != nil {
		return nil, fmt.Errorf("read the source below %s: %w", root, err)
	}
	return t, nil
}

func (t *Tree) add(name string) error {
	syntax, err := parser.ParseFile(t.Files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	relative, err := filepath.Rel(t.root, name)
	if err != nil {
		return err
	}
	relative = filepath.ToSlash(relative)
	folder := path.Dir(relative)
	if t.Packages[folder] == nil {
		t.Packages[folder] = &Package{Folder: folder}
	}
	file := &File{Name: relative, Syntax: syntax, Imports: map[string]string{}}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		used := packageName(imported)
		if spec.Name != nil {
			used = spec.Name.Name
		}
		file.Imports[used] = imported
	}
	t.Packages[folder].Files = append(t.Packages[folder].Files, file)
	return nil
}

// Folder is that of an import path of this repository.
func Folder(imported string) (folder string, ok bool) {
	if imported == Module {
		return ".", true
	}
	return strings.CutPrefix(imported, Module+"/")
}

// packageName guesses the name of a package by its path.
func packageName(imported string) string {
	name := path.Base(imported)
	if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" && strings.Contains(imported, ".") {
		name = path.Base(path.Dir(imported))
	}
	return name
}

// Declaration finds a type of a package.
func (p *Package) Declaration(name string) (*ast.TypeSpec, *File) {
	for _, file := range p.Files {
		for _, declaration := range file.Syntax.Decls {
			general, ok := declaration.(*ast.GenDecl)
			if !ok || general.Tok != token.TYPE {
				continue
			}
			for _, spec := range general.Specs {
				if spec := spec.(*ast.TypeSpec); spec.Name.Name == name {
					return spec, file
				}
			}
		}
	}
	return nil, nil
}

// Method finds a method of a type, whether of its value or of a pointer.
func (p *Package) Method(receiver, name string) (*ast.FuncDecl, *File) {
	for _, file := range p.Files {
		for _, declaration := range file.Syntax.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if ok && function.Name.Name == name && Receiver(function) == receiver {
				return function, file
			}
		}
	}
	return nil, nil
}

// Receiver is the name of the type that a function is a method of, empty for others.
func Receiver(function *ast.FuncDecl) string {
	if function.Recv == nil || len(function.Recv.List) != 1 {
		return ""
	}
	expression := function.Recv.List[0].Type
	for {
		switch e := expression.(type) {
		case *ast.StarExpr:
			expression = e.X
		case *ast.IndexExpr:
			expression = e.X
		case *ast.IndexListExpr:
			expression = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}
