package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// result is what one run of an area did. Fields are camelCase as in all JSON of this repository.
type result struct {
	Area string `json:"area"`
	// Commit is what was tested; Dirty that the work tree had changes which are not in it.
	Commit string    `json:"commit"`
	Dirty  bool      `json:"dirty,omitempty"`
	Date   time.Time `json:"date"`
	// Seconds from its start to its end.
	Seconds int  `json:"seconds"`
	OK      bool `json:"ok"`
	// Tests that passed, with subtests. Failed has package and name of each that failed.
	Passed  int      `json:"passed"`
	Skipped int      `json:"skipped"`
	Failed  []string `json:"failed,omitempty"`
}

// run runs an area by make, and leaves its result in bin/deep. An area is ok when make is.
func run(root string, a area) (*result, error) {
	fmt.Printf("==> %s: about %s; needs %s\n", a.name, a.takes, a.needs)
	commit, err := git(root, "rev-parse", "HEAD")
	if err != nil {
		return nil, fmt.Errorf("which commit is tested: %w", err)
	}
	status, err := git(root, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	r := &result{Area: a.name, Commit: commit, Dirty: status != "", Date: time.Now().UTC().Truncate(time.Second)}
	command := exec.Command("make", "--no-print-directory", a.name)
	command.Dir, command.Stdout, command.Stderr = root, os.Stdout, os.Stderr
	ended := command.Run()
	if exit := (*exec.ExitError)(nil); ended != nil && !errors.As(ended, &exit) {
		return nil, ended
	}
	r.OK, r.Seconds = ended == nil, int(time.Since(r.Date).Seconds())
	if err := r.count(filepath.Join(root, "bin", "tests")); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(root, "bin", "deep", a.name+".json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	return r, os.WriteFile(file, append(text, '\n'), 0o644)
}

// count adds what the events say that tests left since the area began.
func (r *result) count(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	for _, name := range files {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.ModTime().Before(r.Date) {
			continue
		}
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		err = r.read(file)
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	slices.Sort(r.Failed)
	return nil
}

func (r *result) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var e struct{ Action, Package, Test string }
		if json.Unmarshal(text, &e) != nil {
			continue // what a program printed among the events
		}
		switch {
		case e.Action == "fail":
			r.Failed = append(r.Failed, strings.TrimSpace(e.Package+" "+e.Test))
		case e.Test == "":
		case e.Action == "pass":
			r.Passed++
		case e.Action == "skip":
			r.Skipped++
		}
	}
}
