package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tablePage has the table of areas: what each needs, how long it takes, and when it was green last.
const (
	tablePage = "CONTRIBUTING.md"
	tableHead = "| Area | Needs | Takes | Green last |\n| --- | --- | --- | --- |\n"
)

// record writes what bin/deep has of green runs into the table. An area without one keeps what the
// table says; a run of a work tree with changes is none of a commit, and is not recorded.
func record(root string) error {
	path := filepath.Join(root, tablePage)
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, old, after, err := cutTable(string(page))
	if err != nil {
		return err
	}
	var results []result
	for _, a := range areas {
		text, err := os.ReadFile(filepath.Join(root, "bin", "deep", a.name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var r result
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			return fmt.Errorf("the result of %s: %w", a.name, err)
		}
		results = append(results, r)
	}
	return os.WriteFile(path, []byte(before+table(old, results)+after), 0o644)
}

// cutTable returns the rows of the table, and what is before and after them.
func cutTable(page string) (before, rows, after string, err error) {
	before, rest, ok := strings.Cut(page, tableHead)
	if !ok {
		return "", "", "", fmt.Errorf("%s has no table of areas", tablePage)
	}
	rows, after, _ = strings.Cut(rest, "\n\n")
	return before + tableHead, rows + "\n", "\n" + after, nil
}

// table returns the rows of the areas, with green results in place of what an older table says.
func table(old string, results []result) string {
	var rows strings.Builder
	for _, a := range areas {
		green := "never"
		for line := range strings.SplitSeq(old, "\n") {
			if cells := strings.Split(line, " | "); len(cells) == 4 && cells[0] == "| `"+a.name+"`" {
				green = strings.TrimSuffix(cells[3], " |")
			}
		}
		if i := slices.IndexFunc(results, func(r result) bool { return r.Area == a.name && r.OK && !r.Dirty }); i >= 0 {
			r := results[i]
			green = fmt.Sprintf("%s, %.8s: %d tests in %d min", r.Date.Format("2006-01-02"), r.Commit, r.Passed, (r.Seconds+59)/60)
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", a.name, a.needs, a.takes, green)
	}
	return rows.String()
}
