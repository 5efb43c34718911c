package selfupdate

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/slipway-dev/slipway/internal/durable"
)

// outcome of a trial.
type outcome struct {
	// proved says that the new agent does its work.
	proved bool
	// stopped says that this agent was told to end.
	stopped bool
	// late says that time ran out; why says why it is not proved.
	late bool
	why  string
}

// Try runs the new agent beside its program, which must have the state directory to itself,
// until it has proved itself, and says whether it has taken the place of this one. If it
// didn't, this agent goes on. Once the context ends, so does the new agent, and that counts
// for nothing.
func (u *Updater) Try(ctx context.Context) (replaced bool) {
	log := u.options.Log().With("version", u.record.Version, "attempt", u.record.Attempts+1)
	if err := u.save(u.record.begun(u.now(), u.limits.retry)); err != nil {
		// Nothing that is not counted is begun.
		log.Error("cannot count the trial of another version of slipway-agent, trying again", "err", err)
		u.fetchAt = u.now().Add(u.limits.fetch)
		return false
	}
	log.Info("another version of slipway-agent runs on trial")
	result := u.trial(ctx)
	if result.proved {
		err := durable.Rename(u.next(), u.options.Program)
		if err == nil {
			log.Info("another version of slipway-agent has proved itself and takes over")
			return true
		}
		result = outcome{why: fmt.Sprintf("the new agent reported, and cannot take the place of %s: %v", u.options.Program, err)}
	}
	if err := u.settle(u.judge(ctx, result)); err != nil {
		// The record has the trial as one that was cut short.
		log.Error("cannot keep the outcome of the trial of another version of slipway-agent", "err", err)
	}
	return false
}

// judge is the record after a trial without success. Where this agent could not have reported
// either, the trial says nothing of the new one.
func (u *Updater) judge(ctx context.Context, result outcome) Record {
	now := u.now()
	if result.stopped {
		return u.record.unbegun("the trial ended with this agent, which was told to stop", now)
	}
	if result.late {
		if err := u.options.Reachable(ctx); err != nil {
			next := now.Add(u.limits.retry)
			return u.record.unbegun(fmt.Sprintf("%s, but the management cluster is not within reach: %v; the next try is at %s", result.why, err, next.UTC().Format(time.RFC3339)), next)
		}
	}
	return u.record.failed(result.why+"; its log is among that of slipway-agent on the host", now, u.limits.retry)
}

// trial runs the new agent, and returns once it is gone.
func (u *Updater) trial(ctx context.Context) outcome {
	read, write, err := os.Pipe()
	if err != nil {
		return outcome{why: fmt.Sprintf("make a pipe: %v", err)}
	}
	defer func() { _ = read.Close() }()
	// The program does not matter to systemd and ps: its name is that of this one.
	cmd := &exec.Cmd{
		Path: u.next(), Args: os.Args, Env: append(environment(), Variable+"=3"), Stdout: os.Stdout, Stderr: os.Stderr,
		ExtraFiles: []*os.File{write}, SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	ended, err := begin(cmd)
	_ = write.Close()
	if err != nil {
		return outcome{why: fmt.Sprintf("the new agent cannot be started: %v", err)}
	}
	words := make(chan string)
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	go listen(watching, read, words)
	result, gone := u.watch(ctx, words, ended)
	if gone {
		return result
	}
	if result.proved || result.stopped {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			return result
		case <-time.After(u.limits.stop):
		}
	}
	_ = cmd.Process.Kill()
	<-ended
	return result
}

// begin starts a program that the kernel kills when this process ends, however that comes
// about. To the kernel, that is the thread which made it: it is kept until the program ended.
func begin(cmd *exec.Cmd) (ended <-chan ending, err error) {
	started, end := make(chan error, 1), make(chan ending, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			end <- ending{cmd.Wait()}
		}
	}()
	return end, <-started
}

// listen hears what the new agent writes.
func listen(ctx context.Context, from *os.File, words chan<- string) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		select {
		case <-ctx.Done():
			return
		case words <- lines.Text():
		}
	}
}

// watch also says whether the new agent is gone already.
func (u *Updater) watch(ctx context.Context, words <-chan string, ended <-chan ending) (result outcome, gone bool) {
	began := time.Now()
	timer := time.NewTimer(u.limits.start)
	defer timer.Stop()
	result = outcome{why: fmt.Sprintf("the new agent did not start within %s", u.limits.start)}
	for {
		select {
		case word := <-words:
			switch word {
			case wordStarted:
				timer.Reset(u.limits.report - time.Since(began))
				result = outcome{late: true, why: fmt.Sprintf("the new agent did not report to the management cluster within %s", u.limits.report)}
			case wordReported:
				return outcome{proved: true}, false
			}
		case how := <-ended:
			select {
			case <-ctx.Done():
				return outcome{stopped: true}, true
			case <-time.After(u.limits.grace):
			}
			return outcome{why: "the new agent ended before it reported: " + how.String()}, true
		case <-timer.C:
			return result, false
		case <-ctx.Done():
			return outcome{stopped: true}, false
		}
	}
}

// ending is how a program ended.
type ending struct{ err error }

// String implements fmt.Stringer.
func (e ending) String() string {
	if e.err == nil {
		return "exit status 0"
	}
	return e.err.Error()
}

// Become replaces this process by the program that has its name by now. It returns only what
// stands in the way.
func (u *Updater) Become() error {
	err := syscall.Exec(u.options.Program, os.Args, environment()) //nolint:gosec // G702: it is its own program, with its own arguments
	return fmt.Errorf("slipway-agent was updated on the disk, and %s cannot be started in place of this process: %w; start slipway-agent again", u.options.Program, err)
}
