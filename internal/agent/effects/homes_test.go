package effects_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// TestHomes: what a login of an account runs is compared, and a copy of a node's credentials goes with the node, whoever made it.
func TestHomes(t *testing.T) {
	if os.Geteuid() != 0 {
		rights.Skip(t, "needs root, to give files to a user")
	}
	const admin = "of the cluster"
	copies := "runcmd: ['mkdir -p ROOT/etc/kubernetes && printf \"" + admin + "\" > ROOT/etc/kubernetes/admin.conf'"
	kubectl := func(h hands, home string) {
		h.file(home+"/.kube/config", admin, 0o600)
		h.file(home+"/.kube/cache/discovery/x", "cached", 0o600)
	}
	for name, tc := range map[string]struct {
		own, later func(h hands)
		data       string
		// named is what is left, gone and kept what is not and is there then.
		named, gone, kept []string
	}{
		"copied by the bootstrap": {
			data: copies + ", 'for h in root home/operator; do mkdir -p ROOT/$h/.kube && cp ROOT/etc/kubernetes/admin.conf ROOT/$h/.kube/config && chown -R 1234:1234 ROOT/$h/.kube; done']",
			gone: []string{"/root/.kube", "/home/operator/.kube"},
		},
		"copied later": {
			data: copies + "]", later: func(h hands) { kubectl(h, "/root"); kubectl(h, "/home/operator") },
			gone: []string{"/root/.kube", "/home/operator/.kube"},
		},
		"beside the operator's own": {
			own:  func(h hands) { h.file("/home/operator/.kube/own", admin, 0o600) },
			data: copies + "]", later: func(h hands) { kubectl(h, "/home/operator") },
			gone: []string{"/home/operator/.kube/config", "/home/operator/.kube/cache"}, kept: []string{"/home/operator/.kube/own"},
		},
		"another cluster's": {
			data: copies + "]", later: func(h hands) { h.file("/home/operator/.kube/config", "another cluster's", 0o600) },
			named: []string{"directory /home/operator/.kube"}, kept: []string{"/home/operator/.kube/config"},
		},
		"what a login runs, by the bootstrap": {
			own:  func(h hands) { h.file("/home/operator/.bashrc", "own", 0o644) },
			data: "runcmd: ['echo theirs >> ROOT/home/operator/.bashrc', 'echo theirs > ROOT/home/operator/.profile', 'echo theirs > ROOT/var/lib/service/.bash_login']",
			gone: []string{"/home/operator/.profile", "/var/lib/service/.bash_login"},
		},
		"what a login runs, later": {
			own: func(h hands) {
				h.file("/home/operator/.bashrc", "own", 0o644)
				h.file("/home/operator/.config/ssh/config", "own", 0o600)
				h.link(".config/ssh", "/home/operator/.ssh")
				h.link("dotfiles/zshrc", "/home/operator/.zshrc")
				h.file("/home/operator/dotfiles/zshrc", "own", 0o600)
			},
			later: func(h hands) {
				h.write("/home/operator/.bashrc")
				h.file("/home/operator/.ssh/rc", "theirs", 0o600)
				h.write("/home/operator/dotfiles/zshrc")
				h.file("/home/operator/.ssh/known_hosts", "new", 0o600)
				h.file("/home/operator/notes", "new", 0o600)
			},
			named: []string{"file /home/operator/.bashrc, which is not what it was before", "file /home/operator/.ssh/rc", "file /home/operator/.zshrc, which is not what it was before"},
		},
		"a link out of the home": {
			own: func(h hands) {
				h.link("/", "/home/operator/.kube")
				h.link("..", "/home/operator/.docker")
				h.pipe("/srv/p")
			},
			data: copies + "]", later: func(h hands) {
				h.file("/srv/new", "new", 0o600)
				h.file("/home/other", "new", 0o600)
				h.remove("/srv/new")
			},
		},
		"homes of another machine, and of services": {
			own: func(h hands) { h.file("/proc/self/mountinfo", "3 2 0:9 / /home rw - nfs4 nas:/home rw\n", 0o644) },
			later: func(h hands) {
				h.file("/home/operator/.bashrc", "theirs", 0o644)
				h.file("/usr/games/.bashrc", "theirs", 0o644)
			},
		},
		"an account that came later": {
			later: func(h hands) {
				h.file("/etc/passwd", accounts+"new:$6$x:2345:2345::/home/new:/bin/sh\n", 0o644)
				h.file("/home/new/.bashrc", "new", 0o644)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, p := hands{t, fakehost.New(t)}, newRecord(t)
			h.file("/etc/passwd", accounts, 0o644)
			h.file("/etc/shadow", "root:$6$x:1::::::\noperator:$6$x:1::::::\nservice:$6$x:1::::::\ngames:*:1::::::\n", 0o600)
			for _, dir := range []string{"/etc/default", "/var/log", "/srv", "/etc/cni/net.d", "/home/operator", "/var/lib/service", "/etc/kubernetes"} {
				h.mkdir(dir, 0o755)
			}
			h.must(os.Chown(h.Root.Path("/home/operator"), 1234, 1234))
			if tc.own != nil {
				tc.own(h)
			}
			before := wholeTree(t, h.Host)
			if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte("#cloud-config\n" + strings.ReplaceAll(tc.data, "ROOT", string(h.Root)) + "\n")}, p); err != nil {
				t.Fatal(err)
			}
			if tc.later != nil {
				tc.later(h)
			}
			for range 2 {
				if err := h.Executor.Reset(t.Context(), p); err != nil {
					t.Errorf("reset: %v", err)
				}
			}
			if left, err := h.Executor.Verify(t.Context(), p.State()); err != nil || !slices.Equal(left, tc.named) {
				t.Errorf("left is %q, want %q: %v", left, tc.named, err)
			}
			for _, path := range tc.gone {
				if _, err := os.Lstat(h.Root.Path(path)); err == nil {
					t.Errorf("%s is there", path)
				}
			}
			var missing error
			for _, path := range tc.kept {
				_, err := os.Lstat(h.Root.Path(path))
				missing = errors.Join(missing, err)
			}
			if missing != nil {
				t.Error(missing)
			}
			if after := wholeTree(t, h.Host); tc.later == nil {
				for path, is := range before {
					if after[path] != is {
						t.Errorf("%s is\n\t%s\nand was\n\t%s", path, after[path], is)
					}
				}
			}
		})
	}
}

const accounts = "root:x:0:0:root:/root:/bin/sh\noperator:x:1234:1234::/home/operator:/bin/sh\nservice:x:5:5::/var/lib/service:/bin/sh\ngames:x:6:6::/usr/games:/usr/sbin/nologin\n"
