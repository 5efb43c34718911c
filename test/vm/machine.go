package vm

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

const (
	// bootTakes bounds the time to a login; 44 s are enough where nothing else runs.
	bootTakes = 15 * time.Minute
	lookEvery = time.Second
)

// Machine is a Debian machine: one process of QEMU.
type Machine struct {
	// Plane whose network the machine is in; empty for none. Set before Boot.
	Plane string
	// IdentityFile is a private key that sshd lets in as root, KnownHosts has the key that
	// it shows, and Port of 127.0.0.1 is where.
	IdentityFile, KnownHosts string
	Port                     int

	hardware hardware
	signer   ssh.Signer
	process  *exec.Cmd
	// ended is closed when the process has ended.
	ended chan struct{}
	login *ssh.Client
}

// NewMachine makes a machine that is off, with a disk and a key of its own in a folder.
func NewMachine(ctx context.Context, disk Disk, folder string, port int) (*Machine, error) {
	m := &Machine{
		IdentityFile: filepath.Join(folder, "identity"), KnownHosts: filepath.Join(folder, "known_hosts"), Port: port,
		hardware: hardware{disk: disk, image: filepath.Join(folder, "disk.img"), serial: filepath.Join(folder, "serial.log"), sshPort: port},
	}
	if err := m.makeKeys(); err != nil {
		return nil, err
	}
	return m, disk.copyTo(ctx, m.hardware.image)
}

func (m *Machine) makeKeys() error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	if m.signer, err = ssh.NewSignerFromKey(private); err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		return err
	}
	shown, err := m.hardware.disk.HostKey()
	if err != nil {
		return err
	}
	m.hardware.authorizedKey = string(ssh.MarshalAuthorizedKey(m.signer.PublicKey()))
	known := knownhosts.Line([]string{m.endpoint()}, shown) + "\n"
	return errors.Join(os.WriteFile(m.IdentityFile, pem.EncodeToMemory(block), 0o600), os.WriteFile(m.KnownHosts, []byte(known), 0o600))
}

func (m *Machine) endpoint() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(m.Port)) }

// Address is the machine for `slipway host add`, with root as its user.
func (m *Machine) Address() string { return "root@" + m.endpoint() }

// Boot switches the machine on and waits until root can log in.
func (m *Machine) Boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTakes)
	defer cancel()
	if err := m.switchOn(); err != nil {
		return err
	}
	for {
		err := m.logIn(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-m.ended:
			state := m.process.ProcessState
			m.process = nil
			return fmt.Errorf("QEMU ended (%s): %s", state, m.Console())
		case <-ctx.Done():
			return fmt.Errorf("nobody can log in after %s: %w", bootTakes, err)
		case <-time.After(lookEvery):
		}
	}
}

func (m *Machine) switchOn() error {
	m.hardware.plugged = m.Plane != ""
	// Its life is not that of a context: PowerCut ends it.
	process := exec.Command("qemu-system-x86_64", m.hardware.args()...)
	if m.hardware.plugged {
		card, err := plug(m.Plane)
		if err != nil {
			return err
		}
		defer func() { _ = card.Close() }()
		process.ExtraFiles = []*os.File{card}
	}
	messages, err := os.OpenFile(m.hardware.serial+".qemu", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = messages.Close() }()
	process.Stderr = messages
	if err := process.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	m.process, m.ended = process, ended
	go func() {
		defer close(ended)
		_ = process.Wait() // its state tells
	}()
	return nil
}

// PowerCut ends the machine without a word to it. What it had not written to its disk is
// lost.
func (m *Machine) PowerCut() error {
	if m.login != nil {
		_ = m.login.Close()
		m.login = nil
	}
	if m.process == nil {
		return nil
	}
	if err := m.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-m.ended
	m.process = nil
	return nil
}

// Console is the end of what the machine and QEMU said.
func (m *Machine) Console() string {
	var said []byte
	for _, file := range []string{m.hardware.serial, m.hardware.serial + ".qemu"} {
		data, _ := os.ReadFile(file)
		said = append(said, data[max(0, len(data)-16<<10):]...)
	}
	return string(said)
}
