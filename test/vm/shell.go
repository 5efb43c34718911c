package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// loginTakes bounds one attempt: while the machine boots nobody answers.
const loginTakes = 20 * time.Second

func (m *Machine) logIn(ctx context.Context) error {
	shown, err := m.hardware.disk.HostKey()
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.endpoint())
	if err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Now().Add(loginTakes))
	c, channels, requests, err := ssh.NewClientConn(conn, m.endpoint(), &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(m.signer)},
		HostKeyCallback: ssh.FixedHostKey(shown), HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	})
	if err != nil {
		_ = conn.Close()
		return err
	}
	_ = conn.SetDeadline(time.Time{})
	m.login = ssh.NewClient(c, channels, requests)
	return nil
}

// Run runs a script as root and returns what it printed.
func (m *Machine) Run(ctx context.Context, script string) (string, error) {
	return m.execute(ctx, "sh -s", strings.NewReader(script))
}

// Send copies a program onto the machine.
func (m *Machine) Send(ctx context.Context, from, to string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if _, err := m.execute(ctx, "cat >"+to+" && chmod 0755 "+to, file); err != nil {
		return fmt.Errorf("send %s: %w", from, err)
	}
	return nil
}

// execute runs a command as root.
func (m *Machine) execute(ctx context.Context, command string, stdin io.Reader) (string, error) {
	if m.login == nil {
		return "", errors.New("the machine is off")
	}
	session, err := m.login.NewSession()
	if err != nil {
		return "", err
	}
	defer func() { _ = session.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = session.Close() })
	defer stop()
	var stdout, stderr bytes.Buffer
	session.Stdin, session.Stdout, session.Stderr = stdin, &stdout, &stderr
	if err := session.Run(command); err != nil {
		return stdout.String(), fmt.Errorf("%w: %s", err, stderr.String())
	}
	return stdout.String(), nil
}
