package provision_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// bare is a machine that has nothing: a copy-on-write view of this one's file system, in
// namespaces of its own, which an SSH server enters with the shell of the system.
// systemctl is a stand-in that remembers units; the agent that it would start is played
// by the test, which sees the start.
type bare struct {
	t    *testing.T
	dir  string
	pid  int
	key  ssh.Signer
	port string
	// cutAfter ends connections after so many bytes to the machine; 0 for never.
	cutAfter atomic.Int64
	received atomic.Int64
}

const bareScript = `set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" "$1/root"
cd "$1/root"
mount --rbind /proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs var/lib
mount -t tmpfs tmpfs usr/local
mount -t tmpfs tmpfs opt
mount -t tmpfs tmpfs etc/systemd
mkdir -p run/systemd/system run/units usr/local/bin usr/local/sbin etc/systemd/system
rm -rf etc/slipway
echo "$2" >etc/machine-id
hostname "$3"
printf %s "$4" >usr/local/sbin/systemctl
chmod 0755 usr/local/sbin/systemctl
echo ready
exec cat >/dev/null
`

const systemctl = `#!/bin/sh
echo "$*" >>/run/systemctl.log
for unit; do :; done
unit=${unit%.service}
case "$*" in
*is-active*|*is-enabled*) [ -e /run/units/$unit ] ;;
*restart*|*start*) touch /run/units/$unit ;;
*disable*|*stop*) rm -f /run/units/$unit ;;
esac
`

func newBare(t *testing.T, name string) *bare {
	t.Helper()
	if os.Geteuid() != 0 {
		rights.Skip(t, "needs root")
	}
	b := &bare{t: t, dir: t.TempDir()}
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	cmd := exec.Command("unshare", "--mount", "--uts", "--propagation", "private", "sh", "-c", bareScript, "sh", b.dir, fmt.Sprintf("%x", id), name, systemctl)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	input, err := cmd.StdinPipe() // the machine is there until it is closed, which happens at a kill of this process too
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		rights.Skip(t, "no namespaces here:", err)
	}
	b.pid = cmd.Process.Pid
	b.key = newKey(t)
	b.port = b.listen()
	return b
}

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// path of a file of the machine, seen from here.
func (b *bare) path(file string) string {
	return filepath.Join("/proc", fmt.Sprint(b.pid), "root", b.dir, "root", file)
}

// write puts a file on the machine.
func (b *bare) write(file, content string) {
	b.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(b.path(file)), 0o755), os.WriteFile(b.path(file), []byte(content), 0o755)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bare) read(file string) string {
	data, _ := os.ReadFile(b.path(file))
	return string(data)
}

func (b *bare) has(file string) bool {
	_, err := os.Lstat(b.path(file))
	return err == nil
}

// sh runs a command on the machine.
func (b *bare) sh(command string) string {
	b.t.Helper()
	out, err := b.command("root", command).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

func (b *bare) command(user, line string) *exec.Cmd {
	args := []string{"--target", fmt.Sprint(b.pid), "--mount", "--uts", "chroot"}
	if user != "root" {
		args = append(args, "--userspec=65534:65534")
	}
	cmd := exec.Command("nsenter", append(args, filepath.Join(b.dir, "root"), "/bin/sh", "-c", line)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	return cmd
}

// listen serves SSH on a port of loopback, as the machine's sshd would; any key may log in
// but those of the user "stranger". It shows the given host keys, the machine's without any.
func (b *bare) listen(keys ...ssh.Signer) string {
	b.t.Helper()
	if len(keys) == 0 {
		keys = []ssh.Signer{b.key}
	}
	l, err := (&net.ListenConfig{}).Listen(b.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.t.Cleanup(func() {
		cancel()
		_ = l.Close()
	})
	serverConfig := &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, _ ssh.PublicKey) (*ssh.Permissions, error) {
		if c.User() == "stranger" {
			return nil, errors.New("unknown")
		}
		return nil, nil
	}}
	for _, key := range keys {
		serverConfig.AddHostKey(key)
	}
	go func() {
		for {
			connection, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { _ = connection.Close() })
			go b.serve(connection, serverConfig)
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func (b *bare) serve(connection net.Conn, serverConfig *ssh.ServerConfig) {
	defer func() { _ = connection.Close() }()
	c, channels, requests, err := ssh.NewServerConn(connection, serverConfig)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for channel := range channels {
		switch channel.ChannelType() {
		case "session":
			go b.session(channel, c.User(), connection)
		case "direct-tcpip":
			go forward(channel)
		default:
			_ = channel.Reject(ssh.UnknownChannelType, "")
		}
	}
}

// forward is what a jump host does.
func forward(channel ssh.NewChannel) {
	var to struct {
		Host     string
		Port     uint32
		From     string
		FromPort uint32
	}
	if err := ssh.Unmarshal(channel.ExtraData(), &to); err != nil {
		return
	}
	connection, err := net.Dial("tcp", net.JoinHostPort(to.Host, fmt.Sprint(to.Port)))
	if err != nil {
		_ = channel.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	c, requests, err := channel.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	go func() {
		_, _ = io.Copy(c, connection)
		_ = c.Close()
	}()
	_, _ = io.Copy(connection, c)
	_ = connection.Close()
}

func (b *bare) session(channel ssh.NewChannel, user string, connection net.Conn) {
	c, requests, err := channel.Accept()
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	for r := range requests {
		if r.Type != "exec" {
			_ = r.Reply(false, nil)
			continue
		}
		_ = r.Reply(true, nil)
		var request struct{ Command string }
		_ = ssh.Unmarshal(r.Payload, &request)
		cmd := b.command(user, request.Command)
		cmd.Stdout, cmd.Stderr = c, c.Stderr()
		stdin, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(stdin, &counted{Reader: c, bare: b, connection: connection})
			_ = stdin.Close()
		}()
		err = cmd.Wait()
		status := struct{ Status uint32 }{}
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			status.Status = uint32(exit.ExitCode())
		}
		_, _ = c.SendRequest("exit-status", false, ssh.Marshal(status))
		return
	}
}

// counted counts what a machine gets, and cuts the connection where the test wants it.
type counted struct {
	io.Reader
	bare       *bare
	connection net.Conn
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	got := c.bare.received.Add(int64(n))
	if limit := c.bare.cutAfter.Load(); limit > 0 && got > limit {
		_ = c.connection.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}
