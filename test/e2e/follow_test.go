package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"time"
)

// follow shows the status as `slipway status --watch` does, until the context ends. Who takes
// longer than a second to look at one gets the latest next.
func (p *plane) follow(ctx context.Context) <-chan status {
	shown := make(chan status)
	go func() {
		defer close(shown)
		for ctx.Err() == nil {
			if err := p.watch(ctx, shown); err != nil && ctx.Err() == nil {
				p.t.Logf("slipway status --watch: %v", err)
				time.Sleep(time.Second)
			}
		}
	}()
	return shown
}

// watch runs one program until it ends, as it does when there is no status to be had.
func (p *plane) watch(ctx context.Context, shown chan<- status) error {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "slipway"), "--state-dir", p.StateDir, "status", "--watch", "-o", "json")
	cmd.Env, cmd.Stderr = p.Environ(), &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	statuses := make(chan status)
	var broken error
	go func() {
		defer close(statuses)
		broken = decode(out, statuses)
	}()
	latest(ctx, statuses, shown)
	err = errors.Join(broken, cmd.Wait())
	if err != nil && stderr.Len() > 0 {
		err = errors.Join(err, errors.New(stderr.String()))
	}
	return err
}

// decode sends what it reads until there is no more.
func decode(in io.Reader, out chan<- status) error {
	for decoder := json.NewDecoder(in); ; {
		var s status
		if err := decoder.Decode(&s); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		out <- s
	}
}

// latest passes on the newest of what comes in, and takes all of it.
func latest(ctx context.Context, in <-chan status, out chan<- status) {
	var newest status
	var ready chan<- status
	done := ctx.Done()
	for {
		select {
		case s, open := <-in:
			if !open {
				return
			}
			newest, ready = s, out
		case ready <- newest:
			ready = nil
		case <-done:
			done, ready = nil, nil
		}
	}
}
