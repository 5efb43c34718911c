package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// sources are the text files of the repository that are no documents, by path.
var sources = func() func(*testing.T) map[string]string {
	load := sync.OnceValues(func() (map[string]string, error) {
		files := map[string]string{}
		return files, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch name := entry.Name(); {
			case err != nil:
				return err
			case entry.IsDir() && (name == "bin" || name == "out" || name == ".git" || name == "docs" || name == "testdata"):
				return fs.SkipDir
			case !entry.Type().IsRegular() || strings.HasSuffix(name, ".md") || strings.HasSuffix(name, ".sum"):
				return nil
			}
			data, err := os.ReadFile(path)
			name, _ := filepath.Rel(root, path)
			files[name] = string(data)
			return err
		})
	})
	return func(t *testing.T) map[string]string {
		t.Helper()
		files, err := load()
		if err != nil {
			t.Fatal(err)
		}
		if len(files) < 300 {
			t.Fatalf("only %d files were found", len(files))
		}
		return files
	}
}()

// verb is what fmt replaces.
var verb = regexp.MustCompile(`%[-+# 0-9.*\[\]]*[a-zA-Z]`)

// literals are the strings in the code that users run, with … where something is
// put in.
func literals(t *testing.T) map[string]bool {
	t.Helper()
	found, files := map[string]bool{}, token.NewFileSet()
	for path, text := range sources(t) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "test/") {
			continue
		}
		file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			expression, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			value, isString := stringOf(expression)
			if isString {
				found[strings.ReplaceAll(verb.ReplaceAllString(value, "…"), "%%", "%")] = true
			}
			return !isString
		})
	}
	return found
}

// stringOf puts a string together that is written in pieces.
func stringOf(e ast.Expr) (value string, isString bool) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return stringOf(e.X)
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		value, err := strconv.Unquote(e.Value)
		return value, err == nil
	case *ast.BinaryExpr:
		left, leftIs := stringOf(e.X)
		right, rightIs := stringOf(e.Y)
		if e.Op != token.ADD || !leftIs && !rightIs {
			return "", false
		}
		if !leftIs {
			left = "…"
		}
		if !rightIs {
			right = "…"
		}
		return left + right, true
	}
	return "", false
}

// path is one of the repository, in backticks.
var path = regexp.MustCompile("`((?:api|cmd|config|hack|internal|nodebundle|plane|release|sdk|templates|test)/[^`\\s]*)`")

// Files and folders that a document names exist.
func TestPaths(t *testing.T) {
	named := 0
	for _, d := range documents(t) {
		for _, l := range d.lines {
			for _, match := range path.FindAllStringSubmatch(l.text, -1) {
				named++
				for _, pattern := range alternatives(match[1]) {
					if found, err := filepath.Glob(filepath.Join(root, pattern)); err != nil || len(found) == 0 {
						t.Errorf("%s:%d: there is no %s", d.path, l.number, pattern)
					}
				}
			}
		}
	}
	if named < 100 {
		t.Errorf("only %d paths were found", named)
	}
}

var (
	testName = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)
	// provedIn are tests, separated by commas, with the folder that has them.
	provedIn = regexp.MustCompile("((?:`(?:Test|Fuzz)[A-Z][^`]*`(?:, )?)+) in `([\\w/]+)`")
)

// Tests that a document names as its proof exist, in the folder that it names.
func TestProofs(t *testing.T) {
	declared, named := map[string]bool{}, 0
	folders := declaredTests(t)
	for _, tests := range folders {
		for _, name := range tests {
			declared[name] = true
		}
	}
	for _, d := range documents(t) {
		for _, l := range d.lines {
			for _, name := range testName.FindAllString(l.text, -1) {
				named++
				if !declared[name] {
					t.Errorf("%s:%d: there is no %s", d.path, l.number, name)
				}
			}
			for _, match := range provedIn.FindAllStringSubmatch(l.text, -1) {
				for _, name := range testName.FindAllString(match[1], -1) {
					has := func(folder string) bool { return slices.Contains(folders[folder], name) }
					if !slices.ContainsFunc(foldersOf(folders, match[2]), has) {
						t.Errorf("%s:%d: %s is not in %s", d.path, l.number, name, match[2])
					}
				}
			}
		}
	}
	if named < 200 {
		t.Errorf("only %d tests were found", named)
	}
}

// A reader has the way of a HostMachine with one drawing and at most eight files.
func TestWayOfAHostMachine(t *testing.T) {
	files, drawings := map[string]bool{}, 0
	for _, l := range read(t, root+"/docs/concepts/hostmachine.md").lines {
		for _, match := range path.FindAllStringSubmatch(l.text, -1) {
			files[match[1]] = true
		}
		drawings += strings.Count(l.text, "![")
	}
	if len(files) == 0 || len(files) > 8 || drawings != 1 {
		t.Errorf("the page names %d files and has %d drawings", len(files), drawings)
	}
}

// alternatives spells out the a/{b,c} of a shell.
func alternatives(pattern string) []string {
	before, rest, braces := strings.Cut(pattern, "{")
	list, after, closed := strings.Cut(rest, "}")
	if !braces || !closed {
		return []string{pattern}
	}
	var found []string
	for alternative := range strings.SplitSeq(list, ",") {
		found = append(found, before+alternative+after)
	}
	return found
}

// A bootstrap token that somebody makes as a document shows ends, and enrolls as many machines
// as it says.
func TestTokensEnd(t *testing.T) {
	shown := 0
	for _, d := range documents(t) {
		var text strings.Builder
		for _, l := range d.lines {
			text.WriteString(l.text + "\n")
		}
		for block := range strings.SplitSeq(text.String(), "```") {
			if !strings.Contains(block, "type: bootstrap.kubernetes.io/token") {
				continue
			}
			shown++
			for _, limit := range []string{"\n  expiration: ", "infrastructure.slipway.dev/token-uses: ", "system:bootstrappers:slipway:NAMESPACE:HOST"} {
				if !strings.Contains(block, limit) {
					t.Errorf("%s shows a token without %q:\n%s", d.path, strings.TrimSpace(limit), block)
				}
			}
		}
	}
	if shown == 0 {
		t.Error("no document shows a token")
	}
}
