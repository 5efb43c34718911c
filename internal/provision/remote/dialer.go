package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-dev/slipway/internal/provision"
)

const (
	// dialTimeout bounds the way to the end of the login.
	dialTimeout = 20 * time.Second
	// keepAlive is the time between two signs of life. A machine that is silent for
	// two of them is given up.
	keepAlive = 15 * time.Second
)

// Options say how to log in.
type Options struct {
	// User of addresses that name none; the one of this process when empty.
	User string
	// IdentityFiles are private keys; those of ~/.ssh when empty. Keys of an SSH agent
	// are tried as well.
	IdentityFiles []string
	// KnownHosts is the file with host keys; ~/.ssh/known_hosts and the machine's when empty.
	KnownHosts string
	// Jump is [user@]address[:port] of a machine to go through; empty for none.
	Jump string
}

// Dialer logs in on machines. It is safe for use by several goroutines.
type Dialer struct {
	user    string
	keys    *hostKeys
	signers []ssh.Signer
	jump    *target
	closer  func() error
}

// New reads keys and known hosts. Close ends it.
func New(o Options) (*Dialer, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	d := &Dialer{user: o.User}
	if d.user == "" {
		if self, err := user.Current(); err == nil {
			d.user = self.Username
		}
	}
	known := []string{o.KnownHosts}
	if o.KnownHosts == "" {
		known = []string{filepath.Join(home, ".ssh", "known_hosts"), "/etc/ssh/ssh_known_hosts"}
	}
	if d.keys, err = readHostKeys(known); err != nil {
		return nil, err
	}
	if o.Jump != "" {
		jump, err := parse(o.Jump, d.user)
		if err != nil {
			return nil, fmt.Errorf("--jump %w", err)
		}
		d.jump = &jump
	}
	d.signers, d.closer, err = signers(o.IdentityFiles, home, os.Getenv("SSH_AUTH_SOCK"))
	return d, err
}

// Close ends the connection to the SSH agent.
func (d *Dialer) Close() error { return d.closer() }

// User is who logs in on machines that name nobody.
func (d *Dialer) User() string { return d.user }

// Dial logs in, and sees that commands can run as root.
func (d *Dialer) Dial(ctx context.Context, address string) (provision.Machine, error) {
	t, err := parse(address, d.user)
	if err != nil {
		return nil, err
	}
	login, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	m := &machine{target: t, done: make(chan struct{})}
	if d.jump == nil {
		m.client, err = d.login(login, t, nil, (&net.Dialer{}).DialContext)
	} else {
		err = d.through(login, m)
	}
	if err != nil {
		return nil, err
	}
	go m.watch()
	if err := m.becomeRoot(ctx); err != nil {
		_ = m.Close()
		return nil, err
	}
	return m, nil
}

// through logs in by way of the jump host.
func (d *Dialer) through(ctx context.Context, m *machine) error {
	dial := (&net.Dialer{}).DialContext
	jump, err := d.login(ctx, *d.jump, nil, dial)
	if err != nil {
		return err
	}
	// What is closed inside ends only when the jump host says so.
	stop := context.AfterFunc(ctx, func() { _ = jump.Close() })
	defer stop()
	if m.client, err = d.login(ctx, m.target, d.jump, jump.DialContext); err != nil {
		_ = jump.Close()
		return err
	}
	m.jump = jump
	return nil
}

func (d *Dialer) login(ctx context.Context, t target, jump *target, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*ssh.Client, error) {
	connection, err := dial(ctx, "tcp", t.address())
	if err != nil {
		return nil, &provision.Problem{Reason: provision.ReasonUnreachable, Err: err, Message: fmt.Sprintf("nobody answers by SSH at %s: %s", t.address(), err),
			Remedy: "is it on, is sshd running, does a firewall let you through?"}
	}
	// The handshake knows no context.
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	verify, verified := d.keys.verify(t, jump), false
	c, channels, requests, err := ssh.NewClientConn(connection, t.address(), &ssh.ClientConfig{
		User: t.user, Auth: []ssh.AuthMethod{ssh.PublicKeys(d.signers...)},
		HostKeyAlgorithms: d.keys.algorithms(t.address()),
		HostKeyCallback: func(address string, remote net.Addr, key ssh.PublicKey) error {
			err := verify(address, remote, key)
			verified = err == nil
			return err
		},
	})
	if err == nil {
		return ssh.NewClient(c, channels, requests), nil
	}
	_ = connection.Close()
	return nil, d.explain(ctx, t, jump, err, verified)
}

// explain says why a login failed; verified means that the host key was right.
func (d *Dialer) explain(ctx context.Context, t target, jump *target, err error, verified bool) error {
	var known *provision.Problem
	var algorithms *ssh.AlgorithmNegotiationError
	keys, _ := d.keys.known(t.address())
	switch {
	case errors.As(err, &known):
		return known
	case ctx.Err() != nil:
		return &provision.Problem{Reason: provision.ReasonUnreachable, Err: err, Message: fmt.Sprintf("%s did not let the login end in %s", t.address(), dialTimeout),
			Remedy: "is it an SSH server, and is the machine well?"}
	case verified:
		return &provision.Problem{Reason: provision.ReasonLoginRefused, Err: err, Message: fmt.Sprintf("it lets none of your keys log in as %s", t.user),
			Remedy: fmt.Sprintf("ssh-copy-id -p %s %s@%s, or name a key with --identity-file or a user as user@address", t.port, t.user, t.host)}
	case errors.As(err, &algorithms) && len(keys) > 0:
		return &provision.Problem{Reason: provision.ReasonHostKeyChanged, Err: err, Message: "it has no host key of the kinds that known_hosts has of it: somebody else may answer there",
			Remedy: "if its keys were made anew, " + d.keys.replace(t, jump, keys[0].Filename)}
	}
	return &provision.Problem{Reason: provision.ReasonUnreachable, Err: err, Message: fmt.Sprintf("the login at %s failed: %s", t.address(), err)}
}
