package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

const root = "../.."

// document is one page, as a reader sees it.
type document struct {
	path  string // from the root of the repository
	lines []line
}

type line struct {
	number int
	text   string
	// fenced is true inside a code block; language is what its fence names.
	fenced   bool
	language string
}

// documents are all pages of the repository, but the history, which tells of what
// is no more.
func documents(t *testing.T) []document {
	t.Helper()
	var pages []document
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "bin" || name == "out" || name == ".git" || name == "testdata"):
			return fs.SkipDir
		case strings.HasSuffix(name, ".md") && name != "CHANGELOG.md":
			pages = append(pages, read(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 20 {
		t.Fatalf("only %d documents were found", len(pages))
	}
	return pages
}

func read(t *testing.T, path string) document {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	name, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	d := document{path: name}
	fence, language := "", ""
	for i, text := range strings.Split(string(data), "\n") {
		trimmed := strings.TrimSpace(text)
		switch {
		case fence != "" && trimmed == fence:
			fence = ""
		case fence == "" && strings.HasPrefix(trimmed, "```"):
			fence, language = "```", strings.TrimPrefix(trimmed, "```")
		default:
			d.lines = append(d.lines, line{number: i + 1, text: text, fenced: fence != "", language: language})
		}
	}
	if fence != "" {
		t.Errorf("%s: a code block does not end", d.path)
	}
	return d
}

var (
	heading    = regexp.MustCompile(`^#{1,6}\s+(.+?)\s*$`)
	inlineCode = regexp.MustCompile("`([^`]+)`")
	linkText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchors are the names that a browser can jump to, made from headings as code
// hosts make them.
func (d document) anchors() map[string]bool {
	found, times := map[string]bool{}, map[string]int{}
	for _, l := range d.lines {
		match := heading.FindStringSubmatch(l.text)
		if l.fenced || match == nil {
			continue
		}
		name := slug(linkText.ReplaceAllString(match[1], "$1"))
		if n := times[name]; n > 0 {
			found[name+"-"+strconv.Itoa(n)] = true
		} else {
			found[name] = true
		}
		times[name]++
	}
	return found
}

func slug(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsNumber(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, text)
}
