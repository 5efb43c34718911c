package budget

import (
	"bytes"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// part is a share of the repository.
type part struct {
	name    string
	folders []string
}

// parts of the product, and the tools and the support of tests, which are not. A package belongs
// to the longest folder that it is in.
var parts = []part{
	{"agent", []string{"cmd/slipway-agent", "internal/agent", "internal/durable", "internal/hostbundle", "internal/startup"}},
	{"provider", []string{"api", "cmd/slipway-manager", "config", "templates", "internal/agentrollout", "internal/bundleserver", "internal/controller", "internal/host",
		"internal/hosthooks", "internal/inplace", "internal/manager", "internal/placement", "internal/program", "internal/reconciler", "internal/pool",
		"internal/throttle", "internal/tracing", "internal/version", "internal/webhook"}},
	{"sdk", []string{"sdk", "internal/extensionproject", "internal/hookdocs"}},
	{"lifecycle", []string{"cmd/slipway-lifecycle", "internal/lifecycle"}},
	{"operators", []string{"cmd/kubectl-slipway", "cmd/slipway-bundle", "cmd/slipway-console", "internal/answer", "internal/change", "internal/cli", "internal/clusters", "internal/console",
		"internal/display", "internal/doctor", "internal/enroll", "internal/management", "internal/provision", "internal/redact", "internal/runs", "internal/snapshot", "internal/status", "internal/support", "internal/text", "internal/upgradecheck"}},
	{"providerlint", []string{"internal/providercheck"}},
	{"plane", []string{"plane", "nodebundle", "release"}},
	{"generators", []string{"hack", "config/crd/gen", "plane/internal/manifests/gen"}},
	{tests, []string{"test", "internal/testenv", "internal/agent/effects/effectstest", "internal/agent/software/softwaretest",
		"plane/internal/service/fakesystemd", "plane/internal/supervisor/fakeplane"}},
}

const tests = "tests"

// notCounted are folders that nobody writes by hand.
var notCounted = []string{".git", "bin", "out", "testdata", "zz_rendered"}

// lineCount is the step in which lines are counted, so that a small change moves no figure.
const lineStep = 100

// countLines counts code and packages of each part, modules, and what else has lines.
func countLines(t *testing.T, now figures) {
	t.Helper()
	lines, packages := map[string]int{}, map[string]bool{}
	walk(t, func(name string, data []byte) {
		switch {
		case path.Base(name) == "go.mod":
			now["modules"]++
		case strings.HasSuffix(name, ".go"):
			if generated.Match(data) {
				return
			}
			in := partOf(t, path.Dir(name))
			if strings.HasSuffix(name, "_test.go") {
				in = tests
			} else {
				packages[in+" "+path.Dir(name)] = true
			}
			lines["lines "+in] += codeLines(data)
		case strings.HasSuffix(name, ".md") && strings.HasPrefix(name, "docs/") && !strings.HasPrefix(name, "docs/reference/api/"):
			lines["lines documents"] += bytes.Count(data, []byte("\n"))
		case name == "Makefile" || strings.HasSuffix(name, ".mk"):
			now["script Makefile"] += scriptLines(data)
		case strings.HasPrefix(name, "hack/") && strings.HasSuffix(name, ".sh"):
			now["script hack"] += scriptLines(data)
			now["scripts"]++
		case name == ".ci/run":
			now["script .ci/run"] += scriptLines(data)
		}
	})
	for name, count := range lines {
		now[name] = (count + lineStep - 1) / lineStep * lineStep
	}
	for name := range packages {
		in, _, _ := strings.Cut(name, " ")
		now["packages "+in]++
	}
}

// generated is the line of generators.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// walk visits every file of the repository by its path with slashes.
func walk(t *testing.T, visit func(name string, data []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(notCounted, entry.Name()):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		switch {
		case path.Ext(name) == ".go", path.Ext(name) == ".md", path.Ext(name) == ".mk", path.Ext(name) == ".sh",
			path.Base(name) == "go.mod", path.Base(name) == "Makefile", relative == ".ci/run":
		default:
			return nil
		}
		data, err := os.ReadFile(name)
		if err == nil {
			visit(relative, data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func partOf(t *testing.T, folder string) string {
	t.Helper()
	found, longest := "", -1
	for _, p := range parts {
		for _, of := range p.folders {
			if (folder == of || strings.HasPrefix(folder, of+"/")) && len(of) > longest {
				found, longest = p.name, len(of)
			}
		}
	}
	if found == "" {
		t.Errorf("package %s belongs to no part: name its folder in parts", folder)
	}
	return found
}

// codeLines counts the lines that have more than blanks and comments.
func codeLines(data []byte) int {
	files := token.NewFileSet()
	f := files.AddFile("", files.Base(), len(data))
	var s scanner.Scanner
	s.Init(f, data, nil, 0)
	counted := map[int]bool{}
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return len(counted)
		}
		if kind == token.SEMICOLON && text == "\n" {
			continue
		}
		first := f.Line(at)
		for i, line := range strings.Split(text, "\n") {
			if i == 0 || strings.TrimSpace(line) != "" {
				counted[first+i] = true
			}
		}
	}
}

// scriptLines counts the lines of a shell script or a Makefile likewise.
func scriptLines(data []byte) int {
	count := 0
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			count++
		}
	}
	return count
}
