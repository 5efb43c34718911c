package golden

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/source"
)

const root = "../.."

var update = flag.Bool("update", false, "write testdata instead of comparing with it")

// compare holds a golden file to what users see now.
func compare(t *testing.T, name, now string) {
	t.Helper()
	file := filepath.Join("testdata", filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(golden) != now {
		t.Errorf("users see a change (- before, + now):\n%sIf it is intended, run `go test ./test/golden -update` and commit %s.",
			difference(string(golden), now), "test/golden/"+filepath.ToSlash(file))
	}
}

// differences that are shown at most
const shown = 40

// difference lists the lines that only one of two texts has.
func difference(before, now string) string {
	count := map[string]int{}
	for line := range strings.Lines(before) {
		count[line]++
	}
	for line := range strings.Lines(now) {
		count[line]--
	}
	var text strings.Builder
	lines := 0
	for sign, all := range map[string]string{"-": before, "+": now} {
		for line := range strings.Lines(all) {
			if sign == "-" && count[line] <= 0 || sign == "+" && count[line] >= 0 {
				continue
			}
			if lines++; lines <= shown {
				fmt.Fprintf(&text, "%s %s\n", sign, strings.TrimSuffix(line, "\n"))
			}
		}
	}
	switch {
	case lines > shown:
		fmt.Fprintf(&text, "and %d lines more\n", lines-shown)
	case lines == 0:
		text.WriteString("the order of the lines\n")
	}
	return text.String()
}

// compareSet compares with a golden file of lines that are sorted and unique.
func compareSet(t *testing.T, name string, lines map[string]bool, least int) {
	t.Helper()
	if len(lines) < least {
		t.Errorf("%s: only %d lines were found", name, len(lines))
	}
	compare(t, name, strings.Join(slices.Sorted(maps.Keys(lines)), "\n")+"\n")
}

// read returns the source of the repository, which is parsed once.
var read = sync.OnceValues(func() (*source.Tree, error) { return source.Read(root) })

// unseen are folders whose strings no user sees: tests, generators and tools of this repository.
var unseen = []string{"test", "hack", "release", "nodebundle", "internal/testenv",
	"internal/agent/effects/effectstest", "internal/agent/software/softwaretest", "plane/internal/service/fakesystemd", "plane/internal/supervisor/fakeplane", "plane/internal/manifests/gen", "config/crd/gen", "sdk/examples"}

// product are the packages that users run or import, by folder.
func product(t *testing.T) []*source.Package {
	t.Helper()
	tree, err := read()
	if err != nil {
		t.Fatal(err)
	}
	var found []*source.Package
	for _, folder := range slices.Sorted(maps.Keys(tree.Packages)) {
		if !slices.ContainsFunc(unseen, func(out string) bool { return folder == out || strings.HasPrefix(folder, out+"/") }) {
			found = append(found, tree.Packages[folder])
		}
	}
	if len(found) < 50 {
		t.Fatalf("only %d packages were found", len(found))
	}
	return found
}
