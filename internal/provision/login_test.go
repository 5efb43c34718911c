package provision_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/slipway-dev/slipway/internal/provision"
	"github.com/slipway-dev/slipway/internal/provision/remote"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// stockKeys are what a stock sshd has: of RSA, ECDSA and Ed25519.
func stockKeys(t *testing.T) []ssh.Signer {
	t.Helper()
	first, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	second, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := []ssh.Signer{nil, nil, newKey(t)}
	for i, private := range []any{first, second} {
		if keys[i], err = ssh.NewSignerFromKey(private); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

func refusal(t *testing.T, d *remote.Dialer, address string) *provision.Problem {
	t.Helper()
	m, err := d.Dial(t.Context(), address)
	if err == nil {
		_ = m.Close()
	}
	var p *provision.Problem
	if !errors.As(err, &p) {
		t.Fatalf("got %v", err)
	}
	return p
}

// The key that is shown of an unknown machine, and the file to compare it with, are one.
func TestKeyToCompare(t *testing.T) {
	w := newWorld(t)
	b := newBare(t, "stock")
	keys := stockKeys(t)
	none := w.dialer(remote.Options{KnownHosts: filepath.Join(w.dir, "none")})
	for _, tc := range []struct {
		keys  []ssh.Signer
		shown ssh.Signer
		file  string
	}{{keys, keys[2], "ed25519"}, {keys[:2], keys[1], "ecdsa"}, {keys[:1], keys[0], "rsa"}} {
		p := refusal(t, none, at(b.listen(tc.keys...)))
		if p.Reason != provision.ReasonHostKeyUnknown || !strings.Contains(p.Message, ssh.FingerprintSHA256(tc.shown.PublicKey())) || !strings.Contains(p.Remedy, "/etc/ssh/ssh_host_"+tc.file+"_key.pub") {
			t.Errorf("%s: %+v", tc.file, p)
		}
	}
	// Whichever of them is known is the one that is asked for.
	for _, key := range keys {
		port := b.listen(keys...)
		w.learn(port, key)
		m, err := w.dialer(remote.Options{}).Dial(t.Context(), at(port))
		if err != nil {
			t.Fatal(err)
		}
		_ = m.Close()
	}
	// ssh-keyscan goes through no jump host.
	jump := w.machine("jump")
	port := b.listen(keys...)
	p := refusal(t, w.dialer(remote.Options{Jump: at(jump.port)}), at(port))
	if want := "-J root@" + at(jump.port) + " -p " + port + " root@127.0.0.1"; !strings.Contains(p.Remedy, want) || strings.Contains(p.Remedy, "ssh-keyscan") {
		t.Errorf("through a jump host: %+v", p)
	}
}

// sign makes a certificate of a host key.
func sign(t *testing.T, authority, key ssh.Signer, name string) ssh.Signer {
	t.Helper()
	c := &ssh.Certificate{Key: key.PublicKey(), CertType: ssh.HostCert, KeyId: "test", ValidPrincipals: []string{name}, ValidBefore: ssh.CertTimeInfinity}
	err := c.SignCert(rand.Reader, authority)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewCertSigner(c, key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// Machines that are known by the authority of their certificates.
func TestHostCertificates(t *testing.T) {
	w := newWorld(t)
	b := newBare(t, "signed")
	keys, authority := stockKeys(t), newKey(t)
	trust := func(port string) *remote.Dialer {
		known := filepath.Join(w.dir, "known-"+port)
		if err := os.WriteFile(known, []byte("@cert-authority "+knownhosts.Line([]string{at(port)}, authority.PublicKey())+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return w.dialer(remote.Options{KnownHosts: known})
	}
	for _, key := range keys {
		port := b.listen(append(keys, sign(t, authority, key, "127.0.0.1"))...)
		m, err := trust(port).Dial(t.Context(), at(port))
		if err != nil {
			t.Fatalf("%s: %v", key.PublicKey().Type(), err)
		}
		_ = m.Close()
	}
	for _, tc := range []struct {
		name        string
		certificate []ssh.Signer
		reason      provision.Reason
		says        string
	}{
		{"another authority", []ssh.Signer{sign(t, newKey(t), keys[2], "127.0.0.1")}, provision.ReasonHostKeyChanged, "does not hold"},
		{"another name", []ssh.Signer{sign(t, authority, keys[2], "192.0.2.1")}, provision.ReasonHostKeyChanged, "does not hold"},
		{"none", nil, provision.ReasonHostKeyUnknown, "wants a certificate"},
	} {
		port := b.listen(append(keys, tc.certificate...)...)
		p := refusal(t, trust(port), at(port))
		if p.Reason != tc.reason || !strings.Contains(p.Message, tc.says) || strings.Contains(p.Remedy, "ssh-keygen -R") {
			t.Errorf("%s: %+v", tc.name, p)
		}
	}
}

// wire is a way to a port that can go silent: nothing gets through then, and nothing ends.
type wire struct {
	port   string
	silent atomic.Bool
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
	})
	w := &wire{}
	_, w.port, _ = net.SplitHostPort(l.Addr().String())
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			other, err := net.Dial("tcp", at(to))
			if err != nil {
				_ = from.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = from.Close(), other.Close() })
			go w.carry(from, other)
			go w.carry(other, from)
		}
	}()
	return w
}

func (w *wire) carry(from io.Reader, to io.WriteCloser) {
	data := make([]byte, 32<<10)
	for {
		n, err := from.Read(data)
		if w.silent.Load() {
			if err != nil {
				return
			}
			continue
		}
		if _, failed := to.Write(data[:n]); err != nil || failed != nil {
			_ = to.Close()
			return
		}
	}
}

// Whoever is interrupted does not wait for a jump host that went silent.
func TestSilentJumpHost(t *testing.T) {
	ended := func(t *testing.T, what string, done <-chan error) {
		t.Helper()
		if err := poll.Receive(t, what+" ends", done); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	w := newWorld(t)
	jump, b := w.machine("jump"), w.machine("inner")
	done := make(chan error, 1)
	t.Run("command", func(t *testing.T) {
		way := newWire(t, jump.port)
		w.learn(way.port, jump.key)
		m, err := w.dialer(remote.Options{Jump: at(way.port)}).Dial(t.Context(), at(b.port))
		if err != nil {
			t.Fatal(err)
		}
		stdin, open := io.Pipe()
		defer func() { _ = open.Close() }()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_, err := m.Run(ctx, "touch /run/began; cat", stdin)
			done <- errors.Join(err, m.Close())
		}()
		poll.True(t, "the command runs", func() bool { return b.has("/run/began") })
		way.silent.Store(true)
		cancel()
		ended(t, "the command", done)
	})
	t.Run("login", func(t *testing.T) {
		way := newWire(t, jump.port)
		w.learn(way.port, jump.key)
		mute, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = mute.Close() }()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d := w.dialer(remote.Options{Jump: at(way.port)})
		go func() {
			_, err := d.Dial(ctx, mute.Addr().String())
			done <- err
		}()
		c, err := mute.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		// The jump host said that it is through when the name of the program arrives.
		if _, err := fmt.Fscanln(c, new(string)); err != nil {
			t.Fatal(err)
		}
		way.silent.Store(true)
		cancel()
		ended(t, "the login", done)
	})
}

// A machine that somebody else commands has not the memory of this one.
func TestMachineThatPrintsForEver(t *testing.T) {
	w := newWorld(t)
	b := w.machine("endless")
	m, err := w.dialer(remote.Options{}).Dial(t.Context(), at(b.port))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if out, err := m.Run(t.Context(), "head -c 7000000 /dev/zero", nil); err != nil || len(out) != 7000000 {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	ctx := poll.Context(t)
	out, err := m.Run(ctx, "exec cat /dev/zero", nil)
	var p *provision.Problem
	if !errors.As(err, &p) || p.Reason != provision.ReasonCommandFailed || !strings.Contains(p.Message, "printed more than 8 MiB") || out != "" || ctx.Err() != nil {
		t.Errorf("%d bytes, %v, %v", len(out), err, ctx.Err())
	}
}
