package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	// inCode is a document that a comment, a script or a manifest names.
	inCode = regexp.MustCompile(`\bdocs/[\w./-]+\.md\b`)
)

// Every link within the repository leads to a file that is there, and to a heading
// of it.
func TestLinks(t *testing.T) {
	anchors, links := map[string]map[string]bool{}, 0
	pages := documents(t)
	for _, d := range pages {
		anchors[d.path] = d.anchors()
	}
	for _, d := range pages {
		for _, to := range d.links() {
			links++
			path, anchor, _ := strings.Cut(to.target, "#")
			if path != "" {
				path = filepath.Join(filepath.Dir(d.path), path)
			} else {
				path = d.path
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s:%d: there is no %s", d.path, to.number, path)
			} else if anchor != "" && !anchors[path][anchor] {
				t.Errorf("%s:%d: %s has no heading #%s", d.path, to.number, path, anchor)
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links were found", links)
	}
}

// A reader who begins at the map finds every document.
func TestMapIsComplete(t *testing.T) {
	leadsTo, seen := map[string][]string{}, map[string]bool{}
	for _, d := range documents(t) {
		leadsTo[d.path] = nil
		for _, to := range d.links() {
			path, _, _ := strings.Cut(to.target, "#")
			leadsTo[d.path] = append(leadsTo[d.path], filepath.Join(filepath.Dir(d.path), path))
		}
	}
	var visit func(string)
	visit = func(path string) {
		if !seen[path] {
			seen[path] = true
			for _, next := range leadsTo[path] {
				visit(next)
			}
		}
	}
	visit("docs/README.md")
	for path := range leadsTo {
		if strings.HasPrefix(path, "docs/") && !seen[path] {
			t.Errorf("no way leads from docs/README.md to %s", path)
		}
	}
}

// Documents that code names exist.
func TestDocumentsNamedInCode(t *testing.T) {
	named := 0
	for path, text := range sources(t) {
		for _, document := range inCode.FindAllString(text, -1) {
			named++
			if _, err := os.Stat(filepath.Join(root, document)); err != nil && !strings.Contains(text, "/"+document) {
				t.Errorf("%s names %s, which does not exist", path, document)
			}
		}
	}
	if named < 10 {
		t.Errorf("code names only %d documents", named)
	}
}

type linkTo struct {
	target string
	number int
}

// links are those within the repository.
func (d document) links() []linkTo {
	var found []linkTo
	for _, l := range d.lines {
		if l.fenced {
			continue
		}
		for _, match := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(l.text, ""), -1) {
			if !strings.Contains(match[1], "://") && !strings.HasPrefix(match[1], "mailto:") {
				found = append(found, linkTo{match[1], l.number})
			}
		}
	}
	return found
}
