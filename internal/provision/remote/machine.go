package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-dev/slipway/internal/provision"
)

// prologue makes messages English and finds what belongs to administrators.
const prologue = "export LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"

const (
	// maxStderr is how much of what a script complains about is kept, in bytes.
	maxStderr = 8 << 10
	// maxStdout is more than any script prints, in bytes. A machine that somebody else
	// commands may print for ever.
	maxStdout = 8 << 20
)

// machine is a login on one machine.
type machine struct {
	target target
	client *ssh.Client
	// sudo goes ahead of the shell; empty for root.
	sudo string
	// jump is what the client goes through; nil for none.
	jump *ssh.Client
	// done ends the watch.
	done chan struct{}
	once sync.Once
}

// cut ends the connection, whatever the other end does: through a jump host the client's
// own Close asks that one, which may be silent.
func (m *machine) cut() error {
	if m.jump != nil {
		return m.jump.Close()
	}
	return m.client.Close()
}

// Run implements provision.Machine.
func (m *machine) Run(ctx context.Context, script string, stdin io.Reader) (string, error) {
	// Without a terminal, what the script began may go on after that; a session has no
	// better way to be left.
	stop := context.AfterFunc(ctx, func() { _ = m.cut() })
	defer stop()
	session, err := m.client.NewSession()
	if err != nil {
		return "", m.lost(ctx, err)
	}
	defer func() { _ = session.Close() }()
	// The end of a script that prints on is not waited for.
	out := &bounded{limit: maxStdout, exceeded: func() { _ = m.cut() }}
	complaints := &tail{limit: maxStderr}
	session.Stdin, session.Stdout, session.Stderr = stdin, out, complaints
	err = session.Run(m.sudo + "sh -c " + quote(prologue+script))
	var exit *ssh.ExitError
	switch {
	case errors.Is(out.err, errTooMuch):
		return "", &provision.Problem{Reason: provision.ReasonCommandFailed, Err: out.err,
			Message: fmt.Sprintf("%s printed more than %d MiB, which no machine does that is well", m.target.address(), maxStdout>>20), Remedy: "see who commands it"}
	case err == nil:
		return out.kept.String(), nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.As(err, &exit):
		return out.kept.String(), &provision.ExitError{Code: exit.ExitStatus(), Stderr: complaints.String()}
	}
	return "", m.lost(ctx, err)
}

func (m *machine) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &provision.Problem{Reason: provision.ReasonUnreachable, Err: err,
		Message: fmt.Sprintf("the connection to %s was lost: %s", m.target.address(), err), Remedy: "run the same command again, it goes on"}
}

// Close implements provision.Machine.
func (m *machine) Close() error {
	m.once.Do(func() { close(m.done) })
	err := m.cut()
	if m.jump != nil {
		_ = m.client.Close() // its connection is gone
	}
	return err
}

// watch cuts the connection of a machine that is silent: nothing else would end a read
// from one whose power was cut.
func (m *machine) watch() {
	ticker := time.NewTicker(keepAlive)
	defer ticker.Stop()
	for {
		select {
		case <-m.done:
			return
		case <-ticker.C:
		}
		answered := make(chan error, 1)
		go func() {
			_, _, err := m.client.SendRequest("keepalive@openssh.com", true, nil)
			answered <- err
		}()
		select {
		case <-m.done:
			return
		case err := <-answered:
			if err == nil {
				continue
			}
		case <-time.After(2 * keepAlive):
		}
		_ = m.cut()
		return
	}
}

// becomeRoot finds out how commands run as root.
func (m *machine) becomeRoot(ctx context.Context) error {
	id, err := m.Run(ctx, "id -u", nil)
	if err != nil {
		return err
	}
	if strings.TrimSpace(id) == "0" {
		return nil
	}
	m.sudo = "sudo -n -- "
	_, err = m.Run(ctx, "[ $(id -u) -eq 0 ]", nil)
	var exit *provision.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	why := strings.TrimSpace(exit.Stderr)
	if exit.Code == 127 {
		why = "there is no sudo"
	}
	return &provision.Problem{Reason: provision.ReasonNoRoot, Err: err, Message: fmt.Sprintf("%s does not become root there without a password: %s", m.target.user, why),
		Remedy: fmt.Sprintf("log in as root@%s, or as root there: echo '%s ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/%s", m.target.host, m.target.user, strings.ReplaceAll(m.target.user, ".", "_"))}
}

// quote makes one word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// errTooMuch ends the copy of what a script prints.
var errTooMuch = errors.New("too much output")

// bounded keeps what is written to it, up to a limit.
type bounded struct {
	kept  strings.Builder
	limit int
	// exceeded is called at the limit.
	exceeded func()
	err      error
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.kept.Len()+len(p) > b.limit {
		b.err = errTooMuch
		b.exceeded()
		return 0, errTooMuch
	}
	return b.kept.Write(p)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu    sync.Mutex
	limit int
	kept  []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	t.kept = t.kept[max(0, len(t.kept)-t.limit):]
	return len(p), nil
}

// String implements fmt.Stringer.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
