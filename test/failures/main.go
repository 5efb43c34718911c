package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// A failed test is told in so many lines at most, of so many bytes: the last ones, since what
// ends a test comes last but for what its cleanup says.
const lines, length = 20, 400

// said is what testing.T writes: the place in the code, and the message.
var said = regexp.MustCompile(`^\s+[\w.-]+\.go:\d+: |^panic: |^fatal error: |^WARNING: DATA RACE`)

// event is one of `go test -json`: see `go doc test2json`.
type event struct {
	Action, Package, Test, Output string
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: failures EVENTS.json...")
		os.Exit(2)
	}
	for _, name := range os.Args[1:] {
		if err := tellFile(os.Stdout, name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func tellFile(w io.Writer, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := tell(w, file); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// tell writes why the tests failed whose events it reads. A test that said nothing, because
// its subtests did, is left out.
func tell(w io.Writer, events io.Reader) error {
	type test struct{ pkg, name string }
	output := map[test][]string{}
	reader := bufio.NewReader(events)
	for {
		text, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var e event
		if json.Unmarshal(text, &e) != nil {
			continue // what a program printed among the events
		}
		of := test{e.Package, e.Test}
		switch e.Action {
		case "output":
			if line := strings.TrimRight(e.Output, "\n"); said.MatchString(line) {
				output[of] = append(output[of], line[:min(length, len(line))])
			}
		case "fail":
			if told := output[of]; len(told) > 0 {
				_, err = fmt.Fprintf(w, "%s %s\n%s\n", e.Package, e.Test, strings.Join(slices.Compact(told[max(0, len(told)-lines):]), "\n"))
			}
			delete(output, of)
		case "pass", "skip":
			delete(output, of)
		}
		if err != nil {
			return err
		}
	}
}
