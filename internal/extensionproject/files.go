package extensionproject

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed templates
var embedded embed.FS

// templates have << and >> around what they insert: workflows and Makefiles have
// braces of their own.
var templates = template.Must(parse())

// files are the paths within a project, and the templates they are made of.
var files = []struct{ path, template string }{
	{"main.go", "main.go.tmpl"},
	{"hooks.go", "hooks.go.tmpl"},
	{"main_test.go", "main_test.go.tmpl"},
	{"go.mod", "go.mod.tmpl"},
	{"image/main.go", "image/main.go.tmpl"},
	{"image/go.mod", "image/go.mod.tmpl"},
	{"Makefile", "Makefile.tmpl"},
	{"deploy.yaml", "deploy.yaml.tmpl"},
	{".github/workflows/ci.yaml", "ci.yaml.tmpl"},
	{".gitignore", "gitignore.tmpl"},
	{"README.md", "README.md.tmpl"},
}

func parse() (*template.Template, error) {
	all := template.New("").Delims("<<", ">>").Option("missingkey=error")
	for _, f := range files {
		text, err := fs.ReadFile(embedded, path.Join("templates", f.template))
		if err != nil {
			return nil, err
		}
		if _, err := all.New(f.template).Parse(string(text)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// File is one file of a project.
type File struct {
	// Path within the project, with slashes.
	Path    string
	Content []byte
}

// Render returns the files of a project. The error names the option that is wrong.
func Render(o Options) ([]File, error) {
	p, err := plan(o)
	if err != nil {
		return nil, err
	}
	rendered := make([]File, 0, len(files))
	for _, f := range files {
		var out bytes.Buffer
		if err := templates.ExecuteTemplate(&out, f.template, p); err != nil {
			return nil, err
		}
		content := out.Bytes()
		if strings.HasSuffix(f.path, ".go") {
			if content, err = format.Source(content); err != nil {
				return nil, fmt.Errorf("%s: %w", f.path, err)
			}
		}
		rendered = append(rendered, File{Path: f.path, Content: content})
	}
	return rendered, nil
}

// NotEmptyError says that there is something where a project was to be made.
type NotEmptyError struct {
	// Dir is the folder, Found the first thing in it.
	Dir, Found string
}

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("%s is not empty: there is %s; name another folder", e.Dir, e.Found)
}

// Write makes the files in dir, which it makes, too. It returns a *NotEmptyError if
// there is anything in it, and overwrites nothing that appears meanwhile.
func Write(dir string, project []File) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return &NotEmptyError{Dir: dir, Found: entries[0].Name()}
	}
	for _, f := range project {
		if err := write(root, f); err != nil {
			return fmt.Errorf("%w; the project in %s is not whole, remove it and try again", err, dir)
		}
	}
	return nil
}

func write(root *os.Root, f File) error {
	name := filepath.FromSlash(f.Path)
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(f.Content)
	return errors.Join(err, file.Close())
}
