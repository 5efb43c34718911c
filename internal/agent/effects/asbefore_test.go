package effects_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// wholeTree describes all files of the host: mode, owner, content, device, where a link leads, attributes, other names. Of
// the accounts' files only the content counts, since pretended programs write them.
func wholeTree(t *testing.T, h *fakehost.Host) map[string]string {
	t.Helper()
	found, byInode := map[string]string{}, map[uint64]string{}
	err := filepath.WalkDir(string(h.Root), func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		path := "/" + strings.TrimPrefix(strings.TrimPrefix(at, string(h.Root)), "/")
		owner := info.Sys().(*syscall.Stat_t)
		is := fmt.Sprintf("%v %d:%d %d%s", info.Mode(), owner.Uid, owner.Gid, owner.Rdev, attributesIn(t, at, info))
		if !info.IsDir() && owner.Nlink > 1 {
			byInode[owner.Ino] = cmp.Or(byInode[owner.Ino], path)
			is += " also " + byInode[owner.Ino]
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			is += fmt.Sprintf(" to %q", target)
		}
		if slices.Contains([]string{"/etc/passwd", "/etc/shadow", "/etc/group"}, path) {
			is = ""
		}
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			is += fmt.Sprintf(" %q", content)
		}
		if path != "/" && path != "/var/log" && path != "/var/log/slipway-bootstrap.log" && path != "/run/hostname" {
			found[path] = is
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func attributesIn(t *testing.T, at string, info fs.FileInfo) string {
	t.Helper()
	var a durable.Attributes
	var err error
	if info.IsDir() || info.Mode().IsRegular() {
		var f *os.File
		if f, err = os.Open(at); err == nil {
			a, err = durable.AttributesOf(int(f.Fd()))
			_ = f.Close()
		}
	} else {
		a, err = durable.AttributesAt(at)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !a.Immutable && !a.AppendOnly && len(a.Extended) == 0 {
		return ""
	}
	return fmt.Sprintf(" %+v", a)
}

// TestHostIsAsBefore: whatever a bootstrap does to files of the host's own, after the reset all are what they
// were, or are named.
func TestHostIsAsBefore(t *testing.T) {
	// only root may give files to others
	operator := fmt.Sprintf("root:x:0:0:root:/root:/bin/sh\noperator:x:%d:%d::/home/operator:/bin/sh\n", cmp.Or(os.Geteuid(), 1234), cmp.Or(os.Getegid(), 1234))
	for name, tc := range map[string]struct {
		files map[string]string
		data  string
		// later is what somebody does while the host is a node, named is what is left of that.
		later map[string]string
		named []string
		// restarted is what tells somebody to read again what was put back.
		restarted string
	}{
		"appended": {files: map[string]string{"/etc/hosts": "127.0.0.1 localhost\n"},
			data: "write_files: [{path: /etc/hosts, append: true, content: '10.0.0.9 a'}, {path: /etc/hosts, append: true, defer: true, content: '10.0.0.9 b'}]"},
		"replaced, outside of the places": {files: map[string]string{"/srv/data/a": "own"}, data: "write_files: [{path: /srv/data/a, content: theirs, permissions: '0644'}]"},
		"a mode alone":                    {files: map[string]string{"/etc/key": "key"}, data: "write_files: [{path: /etc/key, content: key, permissions: '0644'}]"},
		"new, with directories":           {data: "write_files: [{path: /srv/a/b/c, content: c}]"},
		"by a command": {files: map[string]string{"/etc/fstab": "swap\n", "/etc/gone.conf": "own"},
			data: "runcmd: ['sed -i s/swap/#swap/ ROOT/etc/fstab', 'rm ROOT/etc/gone.conf', 'mkdir -p ROOT/etc/cron.d && echo x > ROOT/etc/cron.d/x']"},
		"the resolver, by a command": {files: map[string]string{"/etc/resolv.conf": "nameserver 192.0.2.1\n"}, data: "runcmd: ['echo nameserver 10.96.0.10 > ROOT/etc/resolv.conf']"},
		"an alternative":             {files: map[string]string{"/etc/alternatives/iptables": "nft"}, data: "runcmd: ['ln -sfn /usr/sbin/iptables-legacy ROOT/etc/alternatives/iptables']"},
		"the agent's configuration":  {files: map[string]string{"/etc/slipway/agent.yaml": "clean: {}\n"}, data: "runcmd: ['echo evil > ROOT/etc/slipway/agent.yaml']"},
		"nobody may change it": {files: map[string]string{"/etc/own.conf": "own"},
			data: "runcmd: ['echo theirs > ROOT/etc/own.conf', 'mkdir -p ROOT/etc/new.d ROOT/var/lib/kubelet/a', 'touch ROOT/etc/new.d/a ROOT/var/lib/kubelet/a/b', 'chattr +i ROOT/etc/own.conf ROOT/etc/new.d/a ROOT/etc/new.d ROOT/var/lib/kubelet/a/b ROOT/var/lib/kubelet/a || true']"},
		"a drop-in of the kubelet, and a unit with a name of the agent's": {
			data: "runcmd: ['mkdir -p ROOT/etc/systemd/system/kubelet.service.d ROOT/usr/lib/systemd/system ROOT/usr/bin', 'for f in etc/systemd/system/kubelet.service.d/a.conf etc/systemd/system/slipway-evil.service usr/lib/systemd/system/b.service usr/bin/c etc/profile.d/d.dpkg-e.sh; do mkdir -p $(dirname ROOT/$f); echo x > ROOT/$f; done']"},
		"host name, by a command": {files: map[string]string{"/etc/hostname": "host-1\n"}, data: "hostname: theirs\nruncmd: ['echo -n worse > ROOT/etc/hostname', 'echo -n worse > ROOT/run/hostname']"},
		"host name, later":        {later: map[string]string{"/run/hostname": "later"}, named: []string{`the running system's name "later", which was "host-1" before`}},
		"host name":               {files: map[string]string{"/etc/hostname": "host-1\n"}, data: "hostname: theirs"},
		"chrony":                  {files: map[string]string{"/etc/chrony.conf": "pool own iburst\n"}, data: "ntp: {servers: [theirs]}", restarted: "systemctl try-restart chronyd"},
		"drop-in":                 {files: map[string]string{"/etc/containerd/config.toml": "version = 3\n"}, data: "write_files: [{path: /etc/containerd/config.toml, content: x}]", restarted: "systemctl try-restart containerd"},
		"units anywhere": {data: "runcmd: ['for d in usr/lib usr/local/lib run; do mkdir -p ROOT/$d/systemd/system; echo x > ROOT/$d/systemd/system/theirs.service; done']",
			restarted: "systemctl stop theirs.service"},
		"limits of systemd":        {files: map[string]string{"/etc/systemd/system.conf": "own"}, data: "runcmd: ['echo theirs > ROOT/etc/systemd/system.conf']", restarted: "systemctl daemon-reload"},
		"how links are configured": {files: map[string]string{"/etc/systemd/network/a.network": "own"}, data: "runcmd: ['echo theirs > ROOT/etc/systemd/network/a.network']", restarted: "systemctl try-restart systemd-networkd"},
		"keys":                     {files: map[string]string{"/etc/passwd": operator, "/home/operator/.ssh/authorized_keys": "ssh-ed25519 OWN\n"}, data: "users: [{name: operator, lock_passwd: false, ssh_authorized_keys: [ssh-ed25519 THEIRS]}]"},
		"a directory":              {data: "runcmd: ['mkdir -p ROOT/etc/cni/net.d/multus.d && echo token > ROOT/etc/cni/net.d/multus.d/multus.kubeconfig']"},
		"changed again": {files: map[string]string{"/etc/hosts": "own\n"}, data: "write_files: [{path: /etc/hosts, append: true, content: theirs}]",
			later: map[string]string{"/etc/hosts": "own\nlater\n"}, named: []string{"file /etc/hosts, which is not what it was before"}},
		"later": {later: map[string]string{"/etc/cron.d/evil": "* * * * * root evil\n"}, named: []string{"directory /etc/cron.d"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, p := fakehost.New(t), newRecord(t)
			for path, content := range tc.files {
				h.Put(t, path, content)
				if err := os.Chmod(h.Root.Path(path), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if name == "a mode alone" {
				if err := os.Chmod(h.Root.Path("/etc/key"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, dir := range []string{"/etc/default", "/var/log", "/srv", "/etc/cni/net.d", "/usr/bin", "/usr/lib", "/run/systemd"} {
				if err := os.MkdirAll(h.Root.Path(dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			before := wholeTree(t, h)
			running, err := h.Executor.Hostname()
			if err != nil {
				t.Fatal(err)
			}
			data := "#cloud-config\n" + strings.ReplaceAll(tc.data, "ROOT", string(h.Root)) + "\n"
			if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte(data)}, p); err != nil {
				t.Fatal(err)
			}
			for path, content := range tc.later {
				h.Put(t, path, content)
			}
			ran := len(h.Programs.Ran())
			for range 2 {
				if err := h.Executor.Reset(t.Context(), p); err != nil && tc.named == nil {
					t.Errorf("reset: %v", err)
				}
			}
			left, err := h.Executor.Verify(t.Context(), p.State())
			if err != nil || !slices.Equal(left, tc.named) {
				t.Errorf("left is %q, want %q: %v", left, tc.named, err)
			}
			if name, err := h.Executor.Hostname(); tc.named == nil && (name != running || err != nil) {
				t.Errorf("the running system's name is %q, and was %q: %v", name, running, err)
			}
			after := wholeTree(t, h)
			for _, path := range slices.Sorted(maps.Keys(before)) {
				if tc.named == nil && after[path] != before[path] {
					t.Errorf("%s is\n\t%s\nand was\n\t%s", path, after[path], before[path])
				}
			}
			for _, path := range slices.Sorted(maps.Keys(after)) {
				if _, was := before[path]; !was && tc.named == nil {
					t.Errorf("%s came", path)
				}
			}
			if tc.restarted != "" && !slices.Contains(h.Programs.Ran()[ran:], tc.restarted) {
				t.Errorf("%s goes on with what it was told: %q", tc.restarted, h.Programs.Ran()[ran:])
			}
		})
	}
}

// TestNoProofWithoutTheRecord: a record that is lost or damaged says so, and what names tell goes.
func TestNoProofWithoutTheRecord(t *testing.T) {
	for name, damage := range map[string]func(string) error{
		"lost": os.Remove,
		"damaged": func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, append(data, 0), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, p := fakehost.New(t), newRecord(t)
			if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte("#cloud-config\nruncmd: [\"true\"]\n")}, p); err != nil {
				t.Fatal(err)
			}
			if err := damage(filepath.Join(h.Executor.Cleaner.Records, p.State().Baseline.Record)); err != nil {
				t.Fatal(err)
			}
			h.Put(t, "/var/lib/kubelet/config.yaml", "")
			if err := h.Executor.Reset(t.Context(), p); err != nil {
				t.Error(err)
			}
			left, err := h.Executor.Verify(t.Context(), p.State())
			if err != nil || len(left) != 1 || !strings.HasPrefix(left[0], "unknown changes: ") {
				t.Errorf("left is %q, %v", left, err)
			}
		})
	}
}

// TestMountThatStays: nothing goes of what is on a mount that cannot be taken away, and there is no proof.
func TestMountThatStays(t *testing.T) {
	const onShare, beside = "/var/lib/kubelet/plugins/share/a", "/var/lib/kubelet/plugins/b"
	h, p := fakehost.New(t), newRecord(t)
	for _, file := range []string{onShare, beside} {
		h.Put(t, file, "")
	}
	h.Put(t, "/proc/self/mountinfo", "3 2 0:9 / /var/lib/kubelet/plugins/share rw - nfs4 nas:/a rw\n")
	if err := h.Executor.Reset(t.Context(), p); err == nil || !strings.Contains(err.Error(), "share is mounted") {
		t.Errorf("reset with a share that stays mounted: %v", err)
	}
	if _, err := os.Lstat(h.Root.Path(onShare)); err != nil {
		t.Errorf("the share lost its file: %v", err)
	}
	if _, err := os.Lstat(h.Root.Path(beside)); err == nil {
		t.Error("the file beside the share is there")
	}
	if left, err := h.Executor.Verify(t.Context(), p.State()); err != nil || !slices.Contains(left, "mount /var/lib/kubelet/plugins/share") {
		t.Errorf("left is %q, %v", left, err)
	}
}

// TestNoProofOfAClaimFromBeforeRecords: the agent was updated while its host was a node. What names tell goes.
func TestNoProofOfAClaimFromBeforeRecords(t *testing.T) {
	h, p := fakehost.New(t), newRecord(t)
	state := journal.State{}
	if err := json.Unmarshal([]byte(`{"baseline": {"links": ["eth0"], "routes": ["default via 10.0.0.1 dev eth0"], "cniConfigs": ["own.conf"]}}`), &state); err != nil {
		t.Fatal(err)
	}
	if err := p.Update(func(s *journal.State) { s.Baseline = state.Baseline }); err != nil {
		t.Fatal(err)
	}
	const own = "/etc/cni/net.d/own.conf"
	h.Put(t, own, "")
	h.Put(t, "/var/lib/kubelet/config.yaml", "")
	if err := h.Executor.Reset(t.Context(), p); err != nil {
		t.Error(err)
	}
	left, err := h.Executor.Verify(t.Context(), p.State())
	want := []string{"unknown changes: an older agent bootstrapped the host, and kept no record of what it was before; look at the host, then clear the quarantine"}
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("left is %q, %v", left, err)
	}
	if _, err := os.Stat(h.Root.Path(own)); err != nil {
		t.Errorf("what was there before is gone: %v", err)
	}
}

// TestAccountsOfOthers: a user ID that another account has, too, keeps its programs and files; an account that the
// bootstrap could not make keeps its jobs.
func TestAccountsOfOthers(t *testing.T) {
	h, p := fakehost.New(t), newRecord(t)
	h.Put(t, "/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nown:x:1234:1234::/home/own:/bin/sh\n")
	h.Put(t, "/etc/shadow", "root:*:0::::::\nown:$6$own:0::::::\n")
	data := strings.ReplaceAll(`#cloud-config
runcmd:
  - echo "second:x:1234:1234::/home/own:/bin/sh" >> ROOT/etc/passwd
  - echo "theirs:x:2345:2345::/home/theirs:/bin/sh" >> ROOT/etc/passwd
  - for name in second theirs; do echo "$name:\$6\$x:0::::::" >> ROOT/etc/shadow; done
`, "ROOT", string(h.Root))
	if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte(data)}, p); err != nil {
		t.Fatal(err)
	}
	if err := h.Executor.Reset(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	ran := h.Programs.Ran()
	if slices.Contains(ran, "pkill -KILL -u second") || slices.Contains(ran, "userdel --remove second") || !slices.Contains(ran, "pkill -KILL -u theirs") {
		t.Errorf("ran %q", ran)
	}

	h, p = fakehost.New(t), newRecord(t)
	h.Programs.Fail = map[string]int{"useradd": 9} // a directory service has the account
	h.Put(t, "/var/spool/cron/crontabs/admin", "own")
	if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte("#cloud-config\nusers: [{name: admin}]\n")}, p); err == nil {
		t.Fatal("the account was made")
	}
	if err := h.Executor.Reset(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(h.Root.Path("/var/spool/cron/crontabs/admin")); err != nil {
		t.Error(err)
	}
}
