package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// acceptedName is the file of the survivors that stay, below the root of the repository.
const acceptedName = "test/conformance/mutation/survivors.yaml"

// accepted are the mutants of a file that no test has to notice, by the name of the file. A file
// without any is held all the same.
type accepted map[string][]survivor

// survivor is such a mutant, and why it may stay: mostly that it behaves as the code does.
type survivor struct {
	In      string `json:"in"`
	Mutant  string `json:"mutant"`
	Because string `json:"because"`
}

func readAccepted(root string) (accepted, error) {
	text, err := os.ReadFile(filepath.Join(root, acceptedName))
	if err != nil {
		return nil, err
	}
	list := accepted{}
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", acceptedName, err)
	}
	return list, nil
}

func (a accepted) has(m mutant) bool {
	return slices.ContainsFunc(a[m.File], func(s survivor) bool { return s.In == m.In && s.Mutant == m.Mutant })
}

// row is one of a table of docs/contracts.md or docs/hazards.md, with the Go files that it names.
type row struct {
	page, name string
	files      []string
}

var quotedFile = regexp.MustCompile("`((?:internal|sdk|api|release|plane)/[\\w./*]+\\.go)`")

// readRows reads the rows that name Go files.
func readRows(root string) ([]row, error) {
	var rows []row
	for _, page := range []string{"docs/contracts.md", "docs/hazards.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
			if !strings.HasPrefix(line, "| ") || len(cells) < 3 {
				continue
			}
			r := row{page: page, name: strings.TrimSpace(cells[0])}
			for _, name := range quotedFile.FindAllStringSubmatch(line, -1) {
				files, err := filepath.Glob(filepath.Join(root, name[1]))
				if err != nil {
					return nil, err
				}
				for _, file := range files {
					relative, err := filepath.Rel(root, file)
					if err != nil {
						return nil, err
					}
					r.files = append(r.files, relative)
				}
			}
			if len(r.files) > 0 {
				rows = append(rows, r)
			}
		}
	}
	return rows, nil
}

// packagesOf returns the files whose mutants are tried, by their package: those that are held, or
// those that rows name or that are held and match, or any file by its whole name.
func packagesOf(root string, held accepted, rows []row, match *regexp.Regexp, heldOnly bool) (map[string][]string, error) {
	all := map[string]bool{}
	for file := range held {
		all[file] = true
	}
	if !heldOnly {
		for _, r := range rows {
			for _, file := range r.files {
				all[file] = true
			}
		}
	}
	if info, err := os.Stat(filepath.Join(root, match.String())); err == nil && info.Mode().IsRegular() {
		all[match.String()] = true
	}
	packages := map[string][]string{}
	for _, file := range sortedKeys(all) {
		if strings.HasSuffix(file, "_test.go") || !match.MatchString(file) {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			return nil, err
		}
		packages[filepath.Dir(file)] = append(packages[filepath.Dir(file)], file)
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("no row and no line of %s names such a file", acceptedName)
	}
	return packages, nil
}

// report lists the survivors against each row that names their file. One that is not accepted is an
// error, and so is one that is accepted and was noticed.
func report(to io.Writer, rows []row, list accepted, verdicts []verdict) error {
	var wrong int
	named := map[string]bool{}
	write := func(file string) {
		for _, v := range verdicts {
			if v.File != file {
				continue
			}
			switch alive := v.By == ""; {
			case alive && list.has(v.mutant):
				fmt.Fprintf(to, "    accepted  %s:%d %s: %s\n", v.File, v.Line, v.In, v.Mutant)
			case alive && v.Unreached:
				fmt.Fprintf(to, "    NEW, which no test reaches  %s:%d %s: %s\n", v.File, v.Line, v.In, v.Mutant)
			case alive:
				fmt.Fprintf(to, "    NEW  %s:%d %s: %s\n", v.File, v.Line, v.In, v.Mutant)
			case list.has(v.mutant):
				fmt.Fprintf(to, "    accepted, and %s notices it: remove it from the list  %s:%d %s: %s\n", v.By, v.File, v.Line, v.In, v.Mutant)
			}
		}
	}
	total, alive := map[string]int{}, map[string]int{}
	for _, v := range verdicts {
		total[v.File]++
		if v.By == "" {
			alive[v.File]++
		}
		if (v.By == "") != list.has(v.mutant) {
			wrong++
		}
	}
	for _, r := range rows {
		for _, file := range r.files {
			if total[file] == 0 {
				continue
			}
			fmt.Fprintf(to, "\n%s: %s\n  %s: %d mutants, %d survive\n", r.page, r.name, file, total[file], alive[file])
			if !named[file] {
				write(file)
			} else if alive[file] > 0 {
				fmt.Fprintln(to, "    as above")
			}
			named[file] = true
		}
	}
	for _, file := range sortedKeys(total) {
		if !named[file] {
			fmt.Fprintf(to, "\nnamed by no row\n  %s: %d mutants, %d survive\n", file, total[file], alive[file])
			write(file)
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d mutants became what %s does not say: write a test that notices a new survivor, or say there why it may stay", wrong, acceptedName)
	}
	fmt.Fprintf(to, "\nall %d mutants were noticed, or are accepted\n", len(verdicts))
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
