package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const sample = `package sample

type pair struct {
	a, b int
}

type flag bool

func (p *pair) set(n int, ok bool) (*pair, error) {
	if n == 0 || !ok {
		return nil, nil
	}
	if err := check(); err != nil {
		return nil, err
	}
	p.a = n
	p.b++
	note(p)
	switch {
	case n > 1 && (ok || p.b > 2):
		return &pair{a: n, b: pair{b: n}.b}, nil
	}
	return p, nil
}

func check() error { return nil }

func note(p *pair) {}

func bigger(n int) flag { return n > 1 }

type reconciler struct {
	Client, APIReader interface{ Get() int }
}

func (r reconciler) get() int { return r.APIReader.Get() }
`

// TestWeave holds which mutants there are, and that those are dropped that do not compile.
func TestWeave(t *testing.T) {
	mutants, text, err := weave("sample.go", []byte(sample), 1, func(m mutant) bool { return m.In == "bigger" })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range mutants {
		got = append(got, m.In+" "+m.Mutant)
	}
	want := `pair.set always: n == 0 || !ok
pair.set dropped: n == 0
pair.set dropped: !ok
pair.set dropped: p.a = n
pair.set dropped: p.b++
pair.set dropped: note(p)
pair.set never: n > 1 && (ok || p.b > 2)
pair.set dropped: n > 1
pair.set dropped: (ok || p.b > 2)
pair.set dropped: ok
pair.set dropped: p.b > 2
pair.set dropped: pair.a: n
pair.set dropped: pair.b: pair{b: n}.b
pair.set dropped: pair.b: n
bigger always: n > 1
bigger never: n > 1
reconciler.get cached: r.APIReader`
	for _, line := range strings.Split(want, "\n") {
		found := false
		for _, g := range got {
			found = found || g == line
		}
		if !found {
			t.Errorf("no mutant %q", line)
		}
	}
	if n := strings.Count(want, "\n") + 1; len(got) != n {
		t.Errorf("%d mutants, want %d:\n%s", len(got), n, strings.Join(got, "\n"))
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", text, 0); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	if strings.Count(string(text), "\n") != strings.Count(sample, "\n") || !strings.Contains(string(text), "flag { return n > 1 }") {
		t.Errorf("woven:\n%s", text)
	}
}

// TestGenerate tries the mutants of a module of its own: some notice, by a failure
// or a panic, some do not, some mutants are not reached, and one does not compile.
func TestGenerate(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module example.com/sample\n\ngo 1.26\n",
		"in/sample.go":     sample,
		"in/other.go":      "package sample\n\nfunc unreached(n int) bool { return n == 7 }\n\nfunc adds(p *pair, n int) {\n\tif n == 1 {\n\t\tp = &pair{}\n\t}\n\tp.a++\n}\n",
		"in/other_test.go": "package sample\n\nimport \"testing\"\n\nfunc TestAdds(t *testing.T) { adds(nil, 1) }\n",
		"in/sample_test.go": `package sample

import "testing"

func TestSet(t *testing.T) {
	if p, _ := (&pair{}).set(0, true); p != nil {
		t.Error("zero is accepted")
	}
	p, err := (&pair{}).set(1, true)
	if err != nil || p.a != 1 || p.b != 1 || bool(bigger(1)) {
		t.Errorf("%+v", p)
	}
}

type reader int

func (r reader) Get() int { return int(r) }

func TestGet(t *testing.T) {
	if n := (reconciler{Client: reader(1), APIReader: reader(2)}).get(); n != 2 {
		t.Error(n)
	}
}

func TestSetElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip()
	}
	done := make(chan *pair)
	go func() {
		p, _ := (&pair{}).set(2, true)
		done <- p
	}()
	if p := <-done; p.a != 2 || p.b != 2 {
		t.Errorf("%+v", p)
	}
}
`,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	verdicts, err := tryPackage(t.Context(), root, "in", []string{"in/other.go", "in/sample.go"}, regexp.MustCompile(""), false, 2)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]string{}
	for _, v := range verdicts {
		by[v.In+" "+v.Mutant] = v.By
		if v.Unreached != (v.In == "unreached" || v.Mutant == "dropped: p.b > 2") {
			t.Errorf("%s: unreached %t", v.Mutant, v.Unreached)
		}
	}
	for name, want := range map[string]string{
		"adds never: n == 1":                       "TestAdds",
		"unreached always: n == 7":                 "",
		"pair.set always: n == 0 || !ok":           "TestSet",
		"pair.set dropped: n == 0":                 "TestSet",
		"pair.set dropped: !ok":                    "",
		"pair.set dropped: note(p)":                "",
		"pair.set dropped: n > 1":                  "",
		"reconciler.get cached: r.APIReader":       "TestGet",
		"pair.set dropped: pair.a: n":              "TestSetElsewhere",
		"pair.set dropped: (ok || p.b > 2)":        "",
		"pair.set never: n > 1 && (ok || p.b > 2)": "TestSetElsewhere",
	} {
		if got, ok := by[name]; !ok || got != want {
			t.Errorf("%s: noticed by %q, want %q", name, got, want)
		}
	}
	if _, compiled := by["bigger always: n > 1"]; compiled {
		t.Error("a mutant was tried that does not compile")
	}

	list := accepted{"in/sample.go": {{In: "pair.set", Mutant: "dropped: !ok"}, {In: "pair.set", Mutant: "dropped: n == 0"}}}
	var page bytes.Buffer
	rows := []row{{page: "page", name: "a rule", files: []string{"in/sample.go"}}, {page: "page", name: "another", files: []string{"in/sample.go", "in/more.go"}}}
	if err := report(&page, rows, list, verdicts); err == nil {
		t.Error("new survivors are no error")
	}
	for _, want := range []string{
		"page: a rule\n  in/sample.go: 15 mutants, 5 survive\n", "accepted  in/sample.go:10 pair.set: dropped: !ok\n",
		"accepted, and TestSet notices it: remove it from the list  in/sample.go:10 pair.set: dropped: n == 0\n",
		"NEW  in/sample.go:18 pair.set: dropped: note(p)\n", "page: another\n  in/sample.go: 15 mutants, 5 survive\n    as above\n",
		"named by no row\n  in/other.go:", "NEW, which no test reaches  in/other.go:3 unreached: always: n == 7\n",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, page.String())
		}
	}
}

// TestSurvivorsAreMutants holds that each accepted survivor is a mutant of the code as it is, and
// has a reason.
func TestSurvivorsAreMutants(t *testing.T) {
	list, err := readAccepted(root)
	if err != nil {
		t.Fatal(err)
	}
	for file, survivors := range list {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		mutants, _, err := weave(file, text, 1, func(mutant) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		there := map[survivor]bool{}
		for _, m := range mutants {
			there[survivor{In: m.In, Mutant: m.Mutant}] = true
		}
		for _, s := range survivors {
			if !there[survivor{In: s.In, Mutant: s.Mutant}] {
				t.Errorf("%s, %s: %q is no mutant any more", file, s.In, s.Mutant)
			}
			if s.Because == "" {
				t.Errorf("%s, %s: %q may survive for no reason", file, s.In, s.Mutant)
			}
		}
	}
}

// TestRows holds that the tables are read: a row has its files, with those of a pattern.
func TestRows(t *testing.T) {
	rows, err := readRows(root)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]string{}
	for _, r := range rows {
		files[r.page+": "+r.name] = r.files
	}
	if got := files["docs/contracts.md: providerIDList"]; len(got) != 1 || got[0] != "internal/controller/hostmachinepool/publish.go" {
		t.Errorf("files of providerIDList: %v", got)
	}
	if got := files["docs/contracts.md: pausing"]; len(got) == 0 {
		t.Error("pausing has no file")
	}
	if got := files["docs/hazards.md: Two machines claim one host"]; len(got) != 2 || got[0] != "internal/controller/hostmachine/claim.go" {
		t.Errorf("files of claims: %v", got)
	}
}
