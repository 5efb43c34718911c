package bootstrap

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/durable"
)

// maxLog is the size in bytes from which the log is begun afresh.
const maxLog = 8 << 20

// Shell runs a group of commands in one POSIX shell, as cloud-init does, so that
// a variable or directory set by one holds for the next. Unlike cloud-init it
// stops at the first command that fails.
type Shell struct {
	Root   hostfs.Root
	System command.System
}

// The shell reads its script from a pipe, so that secrets in it reach neither
// the disk nor the process list. Before each command it tells its number on one
// pipe and waits for the answer on another: the number is on disk before the
// command runs, and a shell whose agent has died stops at the next command.
const (
	scriptFD = 7
	answerFD = 8
	stepFD   = 9
	// lostAgent is the exit code of a shell that gets no answer.
	lostAgent = 113
)

// Run executes the commands. before is called with the index of each one before
// it begins. It returns the index of the last command that began; the error is a
// *command.ExitError when that one failed, with code 0 when it ended the shell.
func (s Shell) Run(ctx context.Context, group string, commands []string, before func(index int) error) (int, error) {
	log, err := s.openLog(group)
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := s.System.Command(ctx, "/bin/sh", fmt.Sprintf("/dev/fd/%d", scriptFD))
	cmd.Stdout, cmd.Stderr = log, log
	pipes, err := start(cmd, script(commands))
	if err != nil {
		return 0, fmt.Errorf("start the shell of %s: %w", group, err)
	}
	talk := make(chan int, 1)
	go func() {
		talk <- pipes.answer(cancel, func(index int) error {
			if index == len(commands) {
				return nil
			}
			return before(index)
		})
	}()
	err = command.Exit(group, cmd.Wait())
	pipes.stop()
	last := <-talk
	if cause := context.Cause(ctx); cause != nil {
		return min(last, len(commands)-1), fmt.Errorf("%s was stopped: %w", group, cause)
	}
	if err == nil && last < len(commands) {
		err = &command.ExitError{Program: group, Code: 0}
	}
	return min(last, len(commands)-1), err
}

// script numbers the commands. The empty line ends a command that closes with a
// backslash.
func script(commands []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "slipway_step() { echo \"$1\" >&%d && read -r slipway_answer <&%d || exit %d; }\n", stepFD, answerFD, lostAgent)
	for i, c := range commands {
		fmt.Fprintf(&b, "slipway_step %d\n%s\n\nslipway_code=$?; [ \"$slipway_code\" -eq 0 ] || exit \"$slipway_code\"\n", i, c)
	}
	fmt.Fprintf(&b, "slipway_step %d\n", len(commands))
	return b.String()
}

type pipes struct {
	steps, answers *os.File
}

// start runs the command with the three pipes and feeds it the script.
func start(cmd *exec.Cmd, script string) (p *pipes, err error) {
	var files []*os.File
	pair := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
			files = append(files, r, w)
		}
		return r, w
	}
	scriptR, scriptW := pair()
	answerR, answerW := pair()
	stepR, stepW := pair()
	if err == nil {
		cmd.ExtraFiles = []*os.File{scriptFD - 3: scriptR, answerFD - 3: answerR, stepFD - 3: stepW}
		err = cmd.Start()
	}
	if err != nil {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
		return nil, err
	}
	for _, f := range []*os.File{scriptR, answerR, stepW} {
		_ = f.Close()
	}
	go func() {
		// A shell that ends early leaves the rest of its script unread.
		_, _ = io.WriteString(scriptW, script)
		_ = scriptW.Close()
	}()
	return &pipes{steps: stepR, answers: answerW}, nil
}

// answer serves the shell until it ends and returns the last number it told.
func (p *pipes) answer(cancel context.CancelCauseFunc, before func(int) error) int {
	last := 0
	lines := bufio.NewScanner(p.steps)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			continue
		}
		last = n
		if err := before(n); err != nil {
			cancel(err)
			return last
		}
		if _, err := io.WriteString(p.answers, "go\n"); err != nil {
			return last
		}
	}
	return last
}

// stop ends answer although a daemon may hold the other end open. What the
// shell told before it ended has been read: it waits for each answer.
func (p *pipes) stop() {
	_ = p.steps.Close()
	_ = p.answers.Close()
}

func (s Shell) openLog(group string) (*os.File, error) {
	if err := durable.MakeParents(string(s.Root), LogFile, 0o755, durable.Keep, durable.Keep); err != nil {
		return nil, err
	}
	log, err := OpenLog(s.Root)
	if err != nil {
		return nil, fmt.Errorf("open the log of bootstrap commands: %w", err)
	}
	if info, err := log.Stat(); err == nil && info.Size() > maxLog {
		if err := log.Truncate(0); err != nil {
			return nil, errors.Join(err, log.Close())
		}
	}
	_, err = fmt.Fprintf(log, "\n=== %s ===\n", group)
	return log, err
}
