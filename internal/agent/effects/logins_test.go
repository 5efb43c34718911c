package effects_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// loginData is a bootstrap that lets people in by every way there is: users of the
// data, and commands behind its back.
const loginData = `#cloud-config
users:
  - name: capi
    groups: admins
    sudo: ALL=(ALL) NOPASSWD:ALL
    ssh_authorized_keys: [ssh-ed25519 CAPI]
  - name: operator
    passwd: $6$theirs
    lock_passwd: false
    ssh_authorized_keys: [ssh-ed25519 THEIRS]
  - name: root
    lock_passwd: false
    ssh_authorized_keys: [ssh-ed25519 ROOTS]
runcmd:
  - echo "smuggled:x:0:0::/home/smuggled:/bin/sh" >> ROOT/etc/passwd
  - echo "_chrony:x:998:998::/var/lib/chrony:/usr/sbin/nologin" >> ROOT/etc/passwd
  - echo "locked:x:1000:1000::/home/locked:/bin/bash" >> ROOT/etc/passwd
  - echo "locked:!:0::::::" >> ROOT/etc/shadow
  - sed -i 's/^sudo:.*/sudo:x:27:operator,nokey/' ROOT/etc/group
  - printf 'theirs:x:1001:\n_chrony:x:998:\n' >> ROOT/etc/group
  - mkdir -p ROOT/etc/sudoers.d && echo "operator ALL=(ALL) ALL" > ROOT/etc/sudoers.d/zz
  - echo "ssh-ed25519 SMUGGLED" >> ROOT/root/.ssh/authorized_keys
`

func withOperator(t *testing.T) *fakehost.Host {
	t.Helper()
	h := fakehost.New(t)
	h.Put(t, "/etc/passwd", "root:x:0:0:root:/root:/bin/sh\noperator:x:0:0::/home/operator:/bin/sh\nnokey:x:1002:100::/home/nokey:/bin/bash\n")
	h.Put(t, "/etc/shadow", "root:*:0::::::\noperator:$6$own:0::::::\nnokey:!:0::::::\n")
	h.Put(t, "/etc/group", "root:x:0:\nsudo:x:27:\n")
	h.Put(t, "/home/operator/.ssh/authorized_keys", "# mine\nssh-ed25519 OWN\n")
	return h
}

// TestResetUndoesLogins holds that nobody whom a bootstrap let in can log in to a host
// that is proved clean, and that the operator still can.
func TestResetUndoesLogins(t *testing.T) {
	h, p := withOperator(t), newRecord(t)
	data := strings.ReplaceAll(loginData, "ROOT", string(h.Root))
	if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte(data)}, p); err != nil {
		t.Fatal(err)
	}
	left, err := h.Executor.Verify(t.Context(), p.State())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"account capi", "account smuggled", "account locked", "group theirs", "account nokey in group sudo", "SSH keys in /home/operator/.ssh/authorized_keys", "SSH keys in /root/.ssh/authorized_keys",
		"account operator in group sudo", "sudo rules in /etc/sudoers.d/zz", "changed password, shell or user ID of account operator",
	} {
		if !slices.Contains(left, want) {
			t.Errorf("before the reset, %q is not found left: %q", want, left)
		}
	}
	// What the operator does while the host is a node is not the bootstrap's.
	h.Put(t, "/etc/sudoers.d/operator", "operator ALL=(ALL) ALL\n")
	if err := h.Executor.Reset(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if left, err := h.Executor.Verify(t.Context(), p.State()); err != nil || len(left) > 0 {
		t.Errorf("after the reset, left are %q, %v", left, err)
	}
	for path, want := range map[string]string{
		"/etc/passwd":                         "root:x:0:0:root:/root:/bin/sh\noperator:x:0:0::/home/operator:/bin/sh\nnokey:x:1002:100::/home/nokey:/bin/bash\n_chrony:x:998:998::/var/lib/chrony:/usr/sbin/nologin\n",
		"/etc/group":                          "root:x:0:\nsudo:x:27:\n_chrony:x:998:\n",
		"/home/operator/.ssh/authorized_keys": "# mine\nssh-ed25519 OWN\n",
		"/etc/sudoers.d/operator":             "operator ALL=(ALL) ALL\n",
	} {
		if got := read(t, h, path); got != want {
			t.Errorf("%s is\n%s, want\n%s", path, got, want)
		}
	}
	if shadow := read(t, h, "/etc/shadow"); !strings.Contains(shadow, "operator:$6$own:") {
		t.Errorf("the operator's password is not as before: %q", shadow)
	}
	for _, path := range []string{"/home/capi", "/root/.ssh/authorized_keys", "/etc/sudoers.d/zz"} {
		if _, err := os.Stat(h.Root.Path(path)); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}

// TestLoginsThatCannotBeUndone are named, which keeps the host in quarantine, until the
// operator has seen to them.
func TestLoginsThatCannotBeUndone(t *testing.T) {
	h, p := withOperator(t), newRecord(t)
	h.Put(t, "/etc/sudoers", "root ALL=(ALL) ALL\n")
	if err := os.Mkdir(h.Root.Path("/root/.ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.Programs.Fail = map[string]int{"userdel": 1}
	data := strings.ReplaceAll(`#cloud-config
users: [{name: capi}]
runcmd:
  - echo "operator ALL=(ALL) NOPASSWD:ALL" >> ROOT/etc/sudoers
  - mkdir -p ROOT/root/.ssh && echo ssh-ed25519 X > ROOT/root/keys && ln -s ../keys ROOT/root/.ssh/authorized_keys
`, "ROOT", string(h.Root))
	if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte(data)}, p); err != nil {
		t.Fatal(err)
	}
	if err := h.Executor.Reset(t.Context(), p); err == nil {
		t.Error("no error tells that the reset was not complete")
	}
	left, err := h.Executor.Verify(t.Context(), p.State())
	want := []string{"account capi", "SSH keys in /root/.ssh/authorized_keys", "changed sudo rules in /etc/sudoers"}
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("left are %q (%v), want %q", left, err, want)
	}
	// The operator does it by hand.
	h.Programs.Fail = nil
	h.Put(t, "/etc/sudoers", "root ALL=(ALL) ALL\n# checked\n")
	h.Put(t, "/root/keys", "")
	h.Put(t, "/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
	if left, err := h.Executor.Verify(t.Context(), p.State()); err != nil || len(left) > 0 {
		t.Errorf("after the operator, left are %q, %v", left, err)
	}
}

// TestLoginsThatABootstrapTakesAway: accounts, keys, members and rules of the operator that are gone with a bootstrap
// are named until they are back; so is a service whose account has another number.
func TestLoginsThatABootstrapTakesAway(t *testing.T) {
	h, p := withOperator(t), newRecord(t)
	before := map[string]string{
		"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\noperator:x:0:0::/home/operator:/bin/sh\nother:x:7:7::/home/other:/bin/sh\nwww:x:33:33::/srv:/usr/sbin/nologin\n",
		"/etc/shadow": "root:*:0::::::\noperator:$6$own:0::::::\nother:$6$other:0::::::\n", "/etc/group": "root:x:0:\nsudo:x:27:operator\nwww:x:33:\n",
		"/etc/sudoers.d/own": "operator ALL=(ALL) ALL\n", "/home/operator/.ssh/authorized_keys": "ssh-ed25519 OWN\n",
	}
	for path, content := range before {
		h.Put(t, path, content)
	}
	data := strings.ReplaceAll(`#cloud-config
runcmd:
  - sed -i '/^other/d; s/33:33/1500:33/' ROOT/etc/passwd
  - sed -i 's/operator$//; s/:33:/:34:/' ROOT/etc/group
  - rm ROOT/etc/sudoers.d/own
  - echo "" > ROOT/home/operator/.ssh/authorized_keys
`, "ROOT", string(h.Root))
	if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte(data)}, p); err != nil {
		t.Fatal(err)
	}
	if err := h.Executor.Reset(t.Context(), p); err != nil {
		t.Error(err)
	}
	want := []string{
		"account other, which was there before, is gone", "group www, which was there before with number 33, is gone or has another one", "changed user ID, group, home or shell of account www", "SSH keys that were in /home/operator/.ssh/authorized_keys before are gone",
		"account operator, which was in group sudo before, is not", "sudo rules in /etc/sudoers.d/own, which were there before, are gone",
	}
	if left, err := h.Executor.Verify(t.Context(), p.State()); err != nil || !slices.Equal(left, want) {
		t.Errorf("left is %q, %v", left, err)
	}
	for path, content := range before {
		h.Put(t, path, content)
	}
	if left, err := h.Executor.Verify(t.Context(), p.State()); err != nil || len(left) > 0 {
		t.Errorf("once they are back, left is %q, %v", left, err)
	}
}
