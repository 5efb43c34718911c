package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

//go:embed chooser.go.tmpl
var chooser string

// generate makes the mutants of files and runs the tests of their packages on each.
func generate(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutation generate", flag.ContinueOnError)
	files := flags.String("files", "", "regular expression of the files whose mutants are tried, from the root of the repository; those of "+acceptedName+" when empty")
	only := flags.String("mutants", "", "regular expression of the mutants that are tried; all when empty")
	short := flags.Bool("short", false, "only with the tests that need no API server")
	workers := flags.Int("workers", 2, "mutants tried at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosenFiles, err := regexp.Compile(*files)
	if err != nil {
		return fmt.Errorf("-files: %w", err)
	}
	chosenMutants, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-mutants: %w", err)
	}
	root, err := output(ctx, "", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	accepted, err := readAccepted(root)
	if err != nil {
		return err
	}
	rows, err := readRows(root)
	if err != nil {
		return err
	}
	packages, err := packagesOf(root, accepted, rows, chosenFiles, *files == "")
	if err != nil {
		return err
	}
	var all []verdict
	for _, dir := range sortedKeys(packages) {
		verdicts, err := tryPackage(ctx, root, dir, packages[dir], chosenMutants, *short, *workers)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		all = append(all, verdicts...)
	}
	return report(os.Stdout, rows, accepted, all)
}

// verdict is what became of a mutant.
type verdict struct {
	mutant
	// By is the test that noticed it, "" when none did.
	By string
	// Unreached is true when no test even reached it.
	Unreached bool
}

// woven is a package with all mutants of some of its files, compiled.
type woven struct {
	root, dir, binary string
	mutants           []mutant
	// short skips the tests that need an API server.
	short bool
	// reached are the tests that reach a mutant, by its number.
	reached map[int][]string
	// patience is the time limit of one try.
	patience time.Duration
}

func tryPackage(ctx context.Context, root, dir string, files []string, only *regexp.Regexp, short bool, workers int) ([]verdict, error) {
	temporary, err := os.MkdirTemp("", "slipway-mutants-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temporary)
	w := &woven{root: root, dir: dir, short: short, binary: filepath.Join(temporary, "package.test")}
	if err := w.build(ctx, temporary, files); err != nil {
		return nil, err
	}
	if err := w.trace(ctx, filepath.Join(temporary, "reached")); err != nil {
		return nil, err
	}
	fmt.Printf("%s: %d mutants of %s\n", dir, len(w.mutants), strings.Join(files, ", "))
	verdicts := make([]verdict, len(w.mutants))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i, m := range w.mutants {
		verdicts[i].mutant = m
		if m.Mutant == "" || !only.MatchString(m.Mutant) {
			verdicts[i].By = "not tried"
			continue
		}
		group.Go(func() error {
			v, start := &verdicts[i], time.Now()
			v.Unreached = len(w.reached[i+1]) == 0
			if !v.Unreached {
				by, err := w.try(ctx, i+1)
				if err != nil {
					return err
				}
				v.By = by
			}
			fmt.Printf("%4.0f s  %s:%d %s: %s  [%s]\n", time.Since(start).Seconds(), m.File, m.Line, m.In, m.Mutant, cmp.Or(v.By, "SURVIVES"))
			return nil
		})
	}
	err = group.Wait()
	return slices.DeleteFunc(verdicts, func(v verdict) bool { return v.By == "not tried" }), err
}

// build compiles the tests of a package with its woven files. A mutant that does not compile is
// dropped, and the rest is compiled again.
func (w *woven) build(ctx context.Context, temporary string, files []string) error {
	broken := map[mutant]bool{}
	for {
		texts, overlay := map[string][]byte{}, map[string]string{}
		w.mutants = nil
		var name string
		for i, file := range files {
			path := filepath.Join(w.root, file)
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			mutants, wovenText, err := weave(file, text, len(w.mutants)+1, func(m mutant) bool { return broken[m] })
			if err != nil {
				return err
			}
			w.mutants = append(w.mutants, mutants...)
			base := fmt.Sprintf("%d.go", i)
			texts[base], overlay[path] = wovenText, filepath.Join(temporary, base)
			if err := os.WriteFile(overlay[path], wovenText, 0o600); err != nil {
				return err
			}
			name = packageName(text)
		}
		helper := filepath.Join(temporary, "chooser.go")
		overlay[filepath.Join(w.root, w.dir, "zz_mutants.go")] = helper
		if err := os.WriteFile(helper, []byte(strings.Replace(chooser, "PACKAGE", name, 1)), 0o600); err != nil {
			return err
		}
		instead, err := json.Marshal(map[string]any{"Replace": overlay})
		if err != nil {
			return err
		}
		overlayFile := filepath.Join(temporary, "overlay.json")
		if err := os.WriteFile(overlayFile, instead, 0o600); err != nil {
			return err
		}
		command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s", "-gcflags=-e", "-overlay", overlayFile, "-o", w.binary, "./"+w.dir)
		command.Dir = w.root
		out, err := command.CombinedOutput()
		if err == nil {
			// Numbers stay as they are: no test reaches a mutant that was dropped.
			for i, m := range w.mutants {
				if broken[m] {
					w.mutants[i].Mutant = ""
				}
			}
			return nil
		}
		found := uncompiled(out, texts)
		for _, n := range found {
			broken[w.mutants[n-1]] = true
		}
		if len(found) == 0 {
			return fmt.Errorf("%w\n%s", err, tail(out))
		}
	}
}

var (
	compileError = regexp.MustCompile(`(?m)([\w.]+\.go):(\d+):(\d+): `)
	numbers      = regexp.MustCompile(`mutant(?:Is|Bool|Cached)\((\d+)`)
)

// uncompiled returns the number of the mutant at each error of the compiler, or of the last one before
// it on its line.
func uncompiled(out []byte, texts map[string][]byte) []int {
	var found []int
	for _, m := range compileError.FindAllSubmatch(out, -1) {
		number, _ := strconv.Atoi(string(m[2]))
		column, _ := strconv.Atoi(string(m[3]))
		lines := bytes.Split(texts[string(m[1])], []byte("\n"))
		if number > len(lines) {
			continue
		}
		line := lines[number-1]
		at := min(len(line), column-1)
		all := numbers.FindAllSubmatch(line[:at], -1)
		if here := numbers.FindSubmatchIndex(line[at:]); here != nil && here[0] == 0 {
			all = append(all, numbers.FindSubmatch(line[at:]))
		}
		if len(all) > 0 {
			n, _ := strconv.Atoi(string(all[len(all)-1][1]))
			found = append(found, n)
		}
	}
	return found
}

var packageClause = regexp.MustCompile(`(?m)^package (\w+)`)

func packageName(text []byte) string { return string(packageClause.FindSubmatch(text)[1]) }

// trace runs all tests without a mutant. They must pass, those that need no API server by themselves too,
// and show which of them reach which mutant.
func (w *woven) trace(ctx context.Context, file string) error {
	start := time.Now()
	out, err := w.run(ctx, time.Hour, reached+"="+file, "-test.short")
	if err == nil && !w.short {
		start = time.Now()
		out, err = w.run(ctx, time.Hour, reached+"="+file)
	}
	if err != nil {
		return fmt.Errorf("the tests fail without a mutant: %w\n%s", err, tail(out))
	}
	w.patience = time.Minute + 3*time.Since(start)
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	w.reached = map[int][]string{}
	for line := range strings.Lines(string(text)) {
		number, test, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		if !slices.Contains(w.reached[n], test) {
			w.reached[n] = append(w.reached[n], test)
		}
	}
	return nil
}

// try runs the tests that reach a mutant, first those that need no API server, and names the first
// that fails.
func (w *woven) try(ctx context.Context, n int) (string, error) {
	var names []string
	everywhere, failed := false, false
	for _, test := range w.reached[n] {
		if test == "?" {
			everywhere = true
		} else {
			names = append(names, test)
		}
	}
	var tries [][]string
	if len(names) > 0 {
		these := "-test.run=^(" + strings.Join(names, "|") + ")$"
		tries = append(tries, []string{"-test.short", these}, []string{these})
	}
	if everywhere {
		tries = append(tries, []string{"-test.short"}, nil)
	}
	for i := 0; i < len(tries); i++ {
		arguments := tries[i]
		if w.short && !slices.Contains(arguments, "-test.short") {
			continue
		}
		out, err := w.run(ctx, w.patience, chosen+"="+strconv.Itoa(n), arguments...)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if by := failedTest.FindSubmatch(out); by != nil {
			return string(by[1]), nil
		}
		if bytes.Contains(out, []byte("panic: ")) || bytes.Contains(out, []byte("fatal error: ")) {
			return "a panic or a test that hangs", nil
		}
		// Without the mutant they start. Once may be the machine's fault.
		if failed {
			return "the start of the tests", nil
		}
		failed = true
		i--
	}
	return "", nil
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// run starts the test binary. As root it has a PID namespace of its own, so that nothing it started
// remains when a mutant makes it panic.
func (w *woven) run(ctx context.Context, patience time.Duration, variable string, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, w.binary, append([]string{"-test.failfast", "-test.timeout=" + patience.String()}, arguments...)...)
	command.Dir = filepath.Join(w.root, w.dir)
	command.Env = append(os.Environ(), variable)
	command.WaitDelay = 10 * time.Second
	if os.Geteuid() == 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	}
	return command.CombinedOutput()
}
