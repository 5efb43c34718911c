package source

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
)

// Checked is a package with what its names mean, as far as this repository declares it.
type Checked struct {
	*Package
	Types *types.Package
	Info  *types.Info
}

// Check finds the meaning of names in a package and in all that it imports of this repository.
// It returns nil for a folder without a package.
func (t *Tree) Check(folder string) *Checked {
	if found, ok := t.checked[folder]; ok {
		return found
	}
	pkg := t.Packages[folder]
	if pkg == nil {
		return nil
	}
	t.checked[folder] = nil // an import cycle does not compile
	checked := &Checked{Package: pkg, Info: &types.Info{
		Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}}
	files := make([]*ast.File, len(pkg.Files))
	for i, file := range pkg.Files {
		files[i] = file.Syntax
	}
	config := types.Config{Importer: importer{t}, Error: func(error) {}} // what others declare is unknown
	checked.Types, _ = config.Check(Module+"/"+folder, t.Files, files, checked.Info)
	t.checked[folder] = checked
	return checked
}

// CheckAll checks every package and returns them by their folders.
func (t *Tree) CheckAll() []*Checked {
	var all []*Checked
	for _, folder := range slices.Sorted(maps.Keys(t.Packages)) {
		all = append(all, t.Check(folder))
	}
	return all
}

// importer knows the packages of this repository; all others are empty to it.
type importer struct{ tree *Tree }

func (i importer) Import(path string) (*types.Package, error) {
	if folder, ours := Folder(path); ours {
		if checked := i.tree.Check(folder); checked != nil && checked.Types != nil {
			return checked.Types, nil
		}
	}
	empty := types.NewPackage(path, packageName(path))
	empty.MarkComplete()
	return empty, nil
}
