package budget

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root = "../.."
	file = "hack/budget.txt"
	head = `# The maximum of each figure that test/budget counts. Its test fails when a figure exceeds its
# maximum; ` + "`go test ./test/budget -update`" + ` writes the current figures. Code lines exclude blank lines
# and comments, and are rounded up to the next 100.
`
)

var update = flag.Bool("update", false, "write "+file+" instead of comparing with it")

// figures by name, which begins with a kind, such as "lines agent".
type figures map[string]int

// No figure exceeds its maximum.
func TestBudget(t *testing.T) {
	now := figures{}
	countLines(t, now)
	countWords(t, now)
	countJourneys(t, now)
	countSDK(t, now)
	if *update {
		write(t, now)
	}
	budget := read(t)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		most, ok := budget[name]
		switch {
		case !ok:
			t.Errorf("%s has no line for %q, which is %d", file, name, now[name])
		case now[name] > most:
			t.Errorf("%s is %d; the maximum in %s is %d. Reduce it, or run `go test ./test/budget -update` and give the reason in the commit",
				name, now[name], file, most)
		case now[name] < most:
			t.Logf("%s fell from %d to %d: lower its maximum with `go test ./test/budget -update`", name, most, now[name])
		case testing.Verbose():
			t.Logf("%s is %d", name, most)
		}
	}
	for name := range budget {
		if _, ok := now[name]; !ok {
			t.Errorf("%s has a line for %q, which is not counted: `go test ./test/budget -update` removes it", file, name)
		}
	}
}

func read(t *testing.T) figures {
	t.Helper()
	data, err := os.Open(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = data.Close() }()
	found := figures{}
	for lines := bufio.NewScanner(data); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndex(line, " ")
		most, err := strconv.Atoi(line[i+1:])
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		found[strings.TrimSpace(line[:i])] = most
	}
	return found
}

func write(t *testing.T, now figures) {
	t.Helper()
	text, kind := strings.Builder{}, ""
	text.WriteString(head)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if is, _, _ := strings.Cut(name, " "); is != kind {
			text.WriteString("\n")
			kind = is
		}
		fmt.Fprintf(&text, "%s %d\n", name, now[name])
	}
	if err := os.WriteFile(filepath.Join(root, file), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
