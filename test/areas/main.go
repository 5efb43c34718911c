package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func command(arguments []string) error {
	switch {
	case len(arguments) > 1 && arguments[0] == "run":
		return runAll(arguments[1:])
	case len(arguments) == 1 && arguments[0] == "affected":
		return tellAffected()
	case len(arguments) == 1 && arguments[0] == "record":
		return record(".")
	}
	return errors.New("usage: areas run AREA... | areas affected | areas record")
}

// runAll runs areas one after the other, whichever fail.
func runAll(names []string) error {
	var chosen []area
	for _, name := range names {
		i := slices.IndexFunc(areas, func(a area) bool { return a.name == name })
		if i < 0 {
			return fmt.Errorf("AREA: there is no %q, but %s", name, namesOf(areas))
		}
		chosen = append(chosen, areas[i])
	}
	var results []*result
	for _, a := range chosen {
		r, err := run(".", a)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		results = append(results, r)
	}
	var failed []string
	fmt.Printf("%-24s%8s%8s%8s  %s\n", "AREA", "SECONDS", "PASSED", "SKIPPED", "FAILED")
	for _, r := range results {
		fmt.Printf("%-24s%8d%8d%8d  %s\n", r.Area, r.Seconds, r.Passed, r.Skipped, strings.Join(r.Failed, ", "))
		if !r.OK {
			failed = append(failed, r.Area)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, " "))
	}
	return nil
}

func tellAffected() error {
	files, ok := changes(".", os.Getenv("BASE"))
	if !ok {
		fmt.Println("What this change affects is unknown without git: make test-deep")
		return nil
	}
	t, err := readTree(".")
	if err != nil {
		return err
	}
	if found := t.affected(files); len(found) == 0 {
		fmt.Println("Of the deep suite this change affects no area.")
	} else {
		fmt.Printf("Of the deep suite this change can affect: make test-deep AREA=%q\n", namesOf(found))
	}
	return nil
}

func namesOf(all []area) string {
	var names []string
	for _, a := range all {
		names = append(names, a.name)
	}
	return strings.Join(names, " ")
}
