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

// importer knows the packages of this repository. All others have only the types that are named
// somewhere, each of which is another one and has no methods.
type importer struct{ tree *Tree }

func (i importer) Import(path string) (*types.Package, error) {
	if folder, ours := Folder(path); ours {
		if checked := i.tree.Check(folder); checked != nil && checked.Types != nil {
			return checked.Types, nil
		}
	}
	if i.tree.foreign == nil {
		i.tree.foreign = i.tree.namedElsewhere()
	}
	if known := i.tree.foreign[path]; known != nil {
		return known, nil
	}
	empty := types.NewPackage(path, packageName(path))
	empty.MarkComplete()
	return empty, nil
}

// namedElsewhere makes packages of the types of other repositories that this one names.
func (t *Tree) namedElsewhere() map[string]*types.Package {
	found := map[string]*types.Package{}
	for _, pkg := range t.Packages {
		for _, file := range pkg.Files {
			ast.Inspect(file.Syntax, func(n ast.Node) bool {
				for _, e := range typesOf(n) {
					addForeign(found, file, e)
				}
				return true
			})
		}
	}
	return found
}

// addForeign adds the types that an expression names, which is one itself.
func addForeign(found map[string]*types.Package, file *File, e ast.Expr) {
	ast.Inspect(e, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		from, ok := selector.X.(*ast.Ident)
		if !ok {
			return true
		}
		path := file.Imports[from.Name]
		if _, ours := Folder(path); path == "" || ours {
			return false
		}
		if found[path] == nil {
			found[path] = types.NewPackage(path, packageName(path))
			found[path].MarkComplete()
		}
		if name := types.NewTypeName(0, found[path], selector.Sel.Name, nil); found[path].Scope().Insert(name) == nil {
			types.NewNamed(name, types.NewInterfaceType(nil, nil), nil)
		}
		return false
	})
}

// typesOf are the types that a node names.
func typesOf(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.Field:
		return []ast.Expr{n.Type}
	case *ast.CompositeLit:
		if n.Type != nil {
			return []ast.Expr{n.Type}
		}
	case *ast.ValueSpec:
		if n.Type != nil {
			return []ast.Expr{n.Type}
		}
	case *ast.TypeSpec:
		if _, alias := n.Type.(*ast.SelectorExpr); alias {
			return []ast.Expr{n.Type}
		}
	}
	return nil
}
