package judge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// program is what a process runs.
type program struct {
	path              string
	args, environment []string
}

// process is a program that runs until it is stopped.
type process struct {
	name   string
	log    string
	cancel context.CancelFunc
	done   chan struct{}

	mu  sync.Mutex
	err error
}

// run starts a program with its output in the file log. It outlives the context.
func run(ctx context.Context, name, log string, what program) *process {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &process{name: name, log: log, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		err := what.execute(ctx, log)
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = fmt.Errorf("%s ended by itself: %w\n%s", name, errors.Join(err, errEnded), p.tail())
	}()
	return p
}

var errEnded = errors.New("it should run until it is stopped")

func (p program) execute(ctx context.Context, log string) error {
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	command := exec.CommandContext(ctx, p.path, p.args...)
	command.Env = append(os.Environ(), p.environment...)
	command.Stdout, command.Stderr = out, out
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 5 * time.Second
	return command.Run()
}

func (p *process) stop() {
	p.cancel()
	<-p.done
}

func (p *process) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *process) tail() []byte {
	const last = 6000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return text[max(0, len(text)-last):]
}

// lines returns the lines of the log that contain a word.
func (p *process) lines(word string) []string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte(word)) {
			found = append(found, filepath.Base(p.log)+": "+string(bytes.TrimSpace(line)))
		}
	}
	return found
}

// awaitReady waits until the manager answers at /readyz.
func (p *process) awaitReady(ctx context.Context, address string) error {
	var failure error
	err := poll.Wait(func() error {
		if failure = errors.Join(p.failure(), ctx.Err()); failure != nil {
			return nil //nolint:nilerr // it ends the wait, and is the error below
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		if err := response.Body.Close(); err != nil || response.StatusCode == http.StatusOK {
			return err
		}
		return fmt.Errorf("/readyz says %s", response.Status)
	})
	if err := errors.Join(failure, err); err != nil {
		return fmt.Errorf("wait until %s is ready: %w\n%s", p.name, err, p.tail())
	}
	return nil
}
