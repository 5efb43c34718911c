package vm

import (
	"crypto/rand"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// refused tries to make a host of a machine that is not fit. Each time it is told why, with
// what to do, and the machine is as it was.
func refused(t *testing.T, l *life) {
	m := l.machine
	dir := t.TempDir()
	nobody, otherKey := filepath.Join(dir, "known_hosts"), filepath.Join(dir, "other.pub")
	_, public, err := note.GenerateKey(rand.Reader, "somebody.example.com")
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{nobody: "", otherKey: public} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	foreign := filepath.Join(dir, "slipway-agent")
	if err := forAnother(foreign, filepath.Join(l.bin, "slipway-agent")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, prepare, restore string
		address                string
		flags                  []string
		reason, message        string
	}{
		{"a host key that nobody vouches for", "", "", m.Address(), []string{"--known-hosts", nobody}, "HostKeyUnknown", "SHA256:"},
		{
			"a user without sudo", "useradd --create-home plain && cp -r /root/.ssh /home/plain/ && chown -R plain /home/plain", "userdel --remove plain 2>/dev/null",
			"plain@" + m.endpoint(), nil, "NoRoot", "sudo",
		},
		{"software that somebody else signed", "", "", m.Address(), []string{"--public-key", otherKey}, "Untrusted", "key"},
		{"an agent for machines of another architecture", "", "", m.Address(), []string{"--agent", foreign}, "WrongArchitecture", runtime.GOARCH},
		{
			"Debian's containerd runs", "dpkg --install /root/packages/*.deb", "dpkg --purge containerd runc && rm -rf /var/lib/containerd /opt/containerd /opt/cni /etc/cni",
			m.Address(), nil, "ForeignRuntime", "containerd",
		},
		{"a full disk", `fallocate --length $(($(stat -f -c '%a * %S' /) - 300 * 1024 * 1024)) /filling`, "rm /filling", m.Address(), nil, "NoSpace", "MiB"},
		{"a clock that is off", "date --set '-5 minutes'", "date --set '+5 minutes'", m.Address(), nil, "ClockSkewed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.prepare != "" {
				m.must(t, c.prepare)
				defer m.must(t, c.restore)
			}
			got := l.add(t, c.address, m, append([]string{"--kubernetes-version", olderVersion}, c.flags...)...)
			if got.State != "Failed" || got.Reason != c.reason || !strings.Contains(got.Message+got.Remedy, c.message) || got.Remedy == "" {
				t.Errorf("host add: %+v, want %s with %q and a remedy", got, c.reason, c.message)
			}
			if left := m.must(t, "ls -d /opt/slipway /var/lib/slipway* /etc/slipway /usr/local/bin/slipway-agent 2>/dev/null || true"); left != "" {
				t.Errorf("left on the machine: %s", left)
			}
		})
	}
}

// forAnother copies a program with the header of one for arm64.
func forAnother(to, from string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	const machine = 18 // where the header of ELF has it
	binary.LittleEndian.PutUint16(program[machine:], uint16(elf.EM_AARCH64))
	return os.WriteFile(to, program, 0o600)
}

// fillsUp has the disk become full while the software of the host is installed. It is told so,
// and what is there by then is of use to the run after it.
func fillsUp(t *testing.T, l *life) {
	l.remember(t)
	filled := make(chan error, 1)
	go func() {
		_, err := l.machine.within(addTakes, `set -eu
until [ "$(du -sm /opt/slipway 2>/dev/null | cut -f1)" -ge 30 ] 2>/dev/null; do sleep 0.5; done
fallocate --length $(($(stat -f -c '%f * %S' /) - 64 * 1024 * 1024)) /filling
cat /dev/zero >/filling.end 2>/dev/null || true`)
		filled <- err
	}()
	got := l.add(t, l.machine.Address(), l.machine, olderAgent(l)...)
	if got.State != "Failed" || got.Step != "software" || !strings.Contains(got.Message, "make room") {
		t.Fatalf("host add: %+v", got)
	}
	if err := <-filled; err != nil {
		t.Fatal(err)
	}
	l.machine.must(t, "rm /filling*")
}
