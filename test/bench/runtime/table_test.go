package runtime

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var measure = flag.Bool("measure", false, "measure for long enough, print the tables and judge the figures")

var rounds = flag.Int("rounds", 5, "how often each figure is measured; the median counts")

// table is printed when its test ends.
type table struct {
	t     *testing.T
	lines []string
}

func newTable(t *testing.T, columns ...string) *table {
	table := &table{t: t}
	table.row(columns...)
	table.lines = append(table.lines, "|"+strings.Repeat("---|", len(columns)))
	t.Cleanup(func() {
		if *measure {
			fmt.Fprintln(os.Stdout, "\n"+strings.Join(table.lines, "\n")+"\n")
		}
	})
	return table
}

func (t *table) row(cells ...string) { t.lines = append(t.lines, "| "+strings.Join(cells, " | ")+" |") }

// judge fails the test when a figure misses its target and figures count.
func (t *table) judgef(ok bool, format string, args ...any) {
	t.t.Helper()
	if *measure && !ok {
		t.t.Errorf(format, args...)
	}
}
