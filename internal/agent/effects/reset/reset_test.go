package reset_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/test/fakehost"
)

func put(t *testing.T, h *fakehost.Host, path, content string) {
	t.Helper()
	full := h.Root.Path(path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, h *fakehost.Host, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.MkdirAll(h.Root.Path(path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func process(t *testing.T, h *fakehost.Host, pid, comm, cmdline string) {
	t.Helper()
	put(t, h, "/proc/"+pid+"/comm", comm+"\n")
	put(t, h, "/proc/"+pid+"/cmdline", strings.ReplaceAll(cmdline, " ", "\x00"))
}

// recorded is the baseline of the host as it is.
func recorded(t *testing.T, h *fakehost.Host) *journal.Baseline {
	t.Helper()
	b, err := h.Executor.Cleaner.Baseline(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const listener = "  sl  local_address rem_address   st\n   0: 00000000:%04X 00000000:0000 %s 0\n"

func TestVerifyNamesWhatIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		make func(*testing.T, *fakehost.Host)
		want string
	}{
		"clean": {func(*testing.T, *fakehost.Host) {}, ""},
		"kubelet": {func(t *testing.T, h *fakehost.Host) {
			process(t, h, "77", "kubelet", "/usr/bin/kubelet --config=x")
		}, "process kubelet (PID 77)"},
		"multi-call binary": {func(t *testing.T, h *fakehost.Host) {
			process(t, h, "78", "hyperkube", "/usr/local/bin/kube-apiserver --x")
		}, "process kube-apiserver (PID 78)"},
		"long name":     {func(t *testing.T, h *fakehost.Host) { process(t, h, "79", "kube-controller", "/kcm --x") }, "process kube-controller-manager (PID 79)"},
		"zombie":        {func(t *testing.T, h *fakehost.Host) { process(t, h, "80", "kubelet", "") }, ""},
		"other program": {func(t *testing.T, h *fakehost.Host) { process(t, h, "81", "sshd", "/usr/sbin/sshd kubelet") }, ""},
		"port": {func(t *testing.T, h *fakehost.Host) {
			put(t, h, "/proc/net/tcp6", fmt.Sprintf(listener, 6443, "0A"))
		}, "listener on port 6443"},
		"port of the endpoint": {func(t *testing.T, h *fakehost.Host) {
			put(t, h, "/proc/net/tcp", fmt.Sprintf(listener, 8443, "0A"))
		}, "listener on port 8443"},
		"connection to it": {func(t *testing.T, h *fakehost.Host) {
			put(t, h, "/proc/net/tcp", fmt.Sprintf(listener, 6443, "01"))
		}, ""},
		"other port": {func(t *testing.T, h *fakehost.Host) { put(t, h, "/proc/net/tcp", fmt.Sprintf(listener, 22, "0A")) }, ""},
		"mount": {func(t *testing.T, h *fakehost.Host) {
			put(t, h, "/proc/self/mountinfo", "1 2 0:1 / /var/lib/kubelet/pods/a\\040b rw - tmpfs\n")
		}, "mount /var/lib/kubelet/pods/a b"},
		"memory that a pod shared": {func(t *testing.T, h *fakehost.Host) {
			put(t, h, "/proc/self/mountinfo", "1 2 0:1 / /run/slipway/containerd/io.containerd.grpc.v1.cri/sandboxes/a/shm rw - tmpfs\n")
		}, "mount /run/slipway/containerd/io.containerd.grpc.v1.cri/sandboxes/a/shm"},
		"root of a container": {func(t *testing.T, h *fakehost.Host) {
			put(t, h, "/proc/self/mountinfo", "1 2 0:1 / /run/containerd/io.containerd.runtime.v2.task/k8s.io/a/rootfs rw - overlay\n")
		}, "mount /run/containerd/io.containerd.runtime.v2.task/k8s.io/a/rootfs"},
		"root of somebody else's container": {func(t *testing.T, h *fakehost.Host) {
			put(t, h, "/proc/self/mountinfo", "1 2 0:1 / /run/containerd/io.containerd.runtime.v2.task/moby/a/rootfs rw - overlay\n")
		}, ""},
		"disk of etcd": {func(t *testing.T, h *fakehost.Host) {
			put(t, h, "/proc/self/mountinfo", "1 2 8:1 / /var/lib/etcd rw - ext4\n")
		}, ""},
		"file": {func(t *testing.T, h *fakehost.Host) { put(t, h, "/etc/kubernetes/manifests/a.yaml", "") }, "file /etc/kubernetes/manifests/a.yaml"},
		"empty directories": {func(t *testing.T, h *fakehost.Host) {
			_ = os.MkdirAll(h.Root.Path("/etc/kubernetes/manifests"), 0o755)
		}, "directory /etc/kubernetes"},
		"network config":     {func(t *testing.T, h *fakehost.Host) { put(t, h, "/etc/cni/net.d/10-flannel.conflist", "") }, "file /etc/cni/net.d/10-flannel.conflist"},
		"own network config": {func(t *testing.T, h *fakehost.Host) { put(t, h, "/etc/cni/net.d/00-own.conf", "") }, ""},
		"interface": {func(_ *testing.T, h *fakehost.Host) {
			h.Network.AddLink(network.Link{Name: "flannel.1", Kind: "vxlan"})
		}, "network interface flannel.1"},
		"port of own bridge": {func(_ *testing.T, h *fakehost.Host) {
			h.Network.AddLink(network.Link{Name: "veth1", Kind: "veth", Master: "docker0"})
		}, ""},
		"new network card": {func(_ *testing.T, h *fakehost.Host) {
			h.Network.AddLink(network.Link{Name: "kube-like", Kind: "device"})
		}, ""},
		"table": {func(_ *testing.T, h *fakehost.Host) { h.Network.AddTable("inet flannel-ipv4") }, "nftables table inet flannel-ipv4"},
		"virtual IP": {func(_ *testing.T, h *fakehost.Host) {
			_ = h.Network.Add("eth0", netip.MustParsePrefix("10.0.0.200/32"), time.Minute)
		}, "virtual IP 10.0.0.200"},
		"containers": {func(t *testing.T, h *fakehost.Host) {
			h.Programs.Answer = map[string]string{"ctr --address /run/containerd/containerd.sock --namespace k8s.io containers list": "a\nb\n"}
		}, "2 containers"},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			put(t, h, "/etc/cni/net.d/00-own.conf", "")
			h.Network.AddLink(network.Link{Name: "docker0", Kind: "bridge"})
			baseline := recorded(t, h)
			c.make(t, h)
			left, err := h.Executor.Verify(t.Context(), journal.State{VirtualIP: "10.0.0.200", VirtualIPPort: 8443, Baseline: baseline})
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(left, "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Fatalf("left is %q, want %q", got, c.want)
			}
		})
	}
}

// TestFilesThatCannotBeRemoved: what the bootstrap wrote and the reset could not remove is named.
func TestFilesThatCannotBeRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		path, blocked string
		want          string
	}{
		"file":                    {"/etc/proxy.conf", "/etc/proxy.conf", "file /etc/proxy.conf"},
		"file that was staged":    {"/etc/proxy.conf", "/etc/.slipway-proxy.conf", "file /etc/.slipway-proxy.conf"},
		"arguments of kubelet":    {"/etc/default/kubelet", "/etc/default/kubelet", "file /etc/default/kubelet"},
		"file of Kubernetes":      {"/etc/kubernetes/a", "/etc/other/a", ""},
		"below what is no folder": {"/etc/file/a", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			put(t, h, "/etc/file", "")
			if c.blocked != "" {
				put(t, h, c.blocked+"/in-use", "") // a directory with something in it stays
			}
			p := &progress{state: journal.State{Files: []string{c.path}, Baseline: recorded(t, h)}}
			if err := h.Executor.Reset(t.Context(), p); (err != nil) != (c.want != "") {
				t.Errorf("reset: %v", err)
			}
			left, err := h.Executor.Verify(t.Context(), p.State())
			if got := strings.Join(left, "; "); err != nil || got != c.want {
				t.Errorf("left is %q, want %q: %v", got, c.want, err)
			}
		})
	}
}

func TestVerifySaysWhenItCannotTell(t *testing.T) {
	h := fakehost.New(t)
	h.Programs.Fail = map[string]int{"ctr": 1}
	if left, err := h.Executor.Verify(t.Context(), journal.State{}); err == nil || !strings.Contains(err.Error(), "containers") {
		t.Fatalf("left %v, error %v", left, err)
	}
	// A runtime that is down has its containers all the same.
	h.Programs.Fail = nil
	if err := os.Remove(h.Root.Path("/run/containerd/containerd.sock")); err != nil {
		t.Fatal(err)
	}
	if left, err := h.Executor.Verify(t.Context(), journal.State{}); err == nil || !strings.Contains(err.Error(), "start it") {
		t.Fatalf("left %v, error %v", left, err)
	}
	h.Programs.Missing = []string{"ctr"}
	if left, err := h.Executor.Verify(t.Context(), journal.State{}); err != nil || len(left) != 0 {
		t.Fatalf("left %v, error %v", left, err)
	}
}

// progress keeps the steps of a reset.
type progress struct {
	state journal.State
	steps []string
}

func (p *progress) Begin(step string) error                  { p.steps = append(p.steps, step); return nil }
func (p *progress) Done() error                              { return nil }
func (p *progress) State() journal.State                     { return p.state }
func (p *progress) Update(change func(*journal.State)) error { change(&p.state); return nil }

func TestOneFailureKeepsNothingElseFromGoing(t *testing.T) {
	h := fakehost.New(t)
	put(t, h, "/etc/cni/net.d/00-own.conf", "")
	mkdir(t, h, "/var/lib/etcd")
	baseline := recorded(t, h)
	put(t, h, "/var/lib/etcd/member/wal", "")
	put(t, h, "/etc/cni/net.d/10-flannel.conflist", "")
	put(t, h, "/opt/script.sh", "")
	put(t, h, "/opt/.slipway-script.sh", "")
	h.Programs.Fail = map[string]int{"kubeadm": 1}
	h.Programs.Answer = map[string]string{"ctr --address /run/containerd/containerd.sock --namespace k8s.io containers list": "a\n"}
	p := &progress{state: journal.State{Files: []string{"/opt/script.sh", "/opt/gone"}, Baseline: baseline}}
	err := h.Executor.Reset(t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), "kubeadm ended with exit code 1") {
		t.Fatalf("error is %v", err)
	}
	for path, want := range map[string]bool{
		"/var/lib/etcd": true, "/var/lib/etcd/member": false, "/etc/cni/net.d/10-flannel.conflist": false, "/etc/cni/net.d/00-own.conf": true,
		"/opt/script.sh": false, "/opt/.slipway-script.sh": false,
	} {
		if _, err := os.Stat(h.Root.Path(path)); (err == nil) != want {
			t.Errorf("%s exists: %t, want %t", path, err == nil, want)
		}
	}
	ran := slices.DeleteFunc(h.Programs.Ran(), func(line string) bool { return strings.HasPrefix(line, "systemctl show") })
	ctr := "ctr --address /run/containerd/containerd.sock --namespace k8s.io "
	want := []string{
		ctr + "images list --quiet", "kubeadm reset --force --cleanup-tmp-dir --cri-socket unix:///run/containerd/containerd.sock", "systemctl stop kubelet",
		ctr + "containers list --quiet", ctr + "containers list --quiet", ctr + "tasks delete --force a", ctr + "containers delete a",
	}
	if !slices.Equal(ran, want) {
		t.Errorf("ran %q, want %q", ran, want)
	}
}

// A host of a control plane whose Cluster is being deleted waits neither for the API server nor
// for etcd. The data of its etcd goes wherever it is.
func TestResetWithItsClusterAsksNoEtcd(t *testing.T) {
	for name, c := range map[string]struct {
		deleting bool
		flags    string
		kept     bool
	}{
		"the Cluster stays": {false, "", true}, // kubeadm removes it
		"the Cluster goes":  {true, " --skip-phases remove-etcd-member --kubeconfig /nonexistent", false},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			put(t, h, "/srv/etcd/member/wal", "")
			put(t, h, "/etc/kubernetes/manifests/etcd.yaml", "kind: Pod\nspec:\n  volumes:\n  - {name: certs, hostPath: {path: /srv}}\n  - {name: etcd-data, hostPath: {path: /srv/etcd}}\n")
			p := &progress{state: journal.State{Operation: &journal.Operation{Phase: infrav1.HostDesiredReset, ClusterDeleting: c.deleting}}}
			h.Etcd = &member{}
			if err := h.Executor.Reset(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if ran, want := h.Programs.Ran()[0], "kubeadm reset --force --cleanup-tmp-dir --cri-socket unix:///run/containerd/containerd.sock"+c.flags; ran != want {
				t.Errorf("ran %q, want %q", ran, want)
			}
			if _, err := os.Stat(h.Root.Path("/srv/etcd/member")); (err == nil) != c.kept {
				t.Errorf("the data of etcd: %v, want it kept: %t", err, c.kept)
			}
			if _, err := os.Stat(h.Root.Path("/srv/etcd")); err != nil {
				t.Errorf("the directory itself, which may be a mount point: %v", err)
			}
		})
	}
}

// member is one that leaves after some failures.
type member struct {
	fails, tried int
}

func (m *member) Leave(context.Context) error {
	if m.tried++; m.tried <= m.fails {
		return errors.New("etcdserver: request timed out")
	}
	return nil
}

// TestMemberOfEtcdLeavesBeforeItsDataGoes: a host loses its power when it has just joined a
// control plane of one. Its data is what gives the two a majority again.
func TestMemberOfEtcdLeavesBeforeItsDataGoes(t *testing.T) {
	const forever = 1000
	bootstrap := &journal.Operation{Phase: infrav1.HostDesiredBootstrapped}
	for name, c := range map[string]struct {
		operation *journal.Operation
		files     string
		member    member
		tried     int
		kept      bool
	}{
		"at once":                     {bootstrap, "member/wal", member{}, 1, false},
		"once there is a majority":    {bootstrap, "member/wal", member{fails: 5}, 6, false},
		"without a majority":          {bootstrap, "member/wal", member{fails: forever}, 31, true},
		"never started":               {bootstrap, "lost+found", member{fails: forever}, 0, false},
		"the first control plane":     {&journal.Operation{Phase: infrav1.HostDesiredBootstrapped, InitializesControlPlane: true}, "member/wal", member{fails: forever}, 0, false},
		"the Machine goes":            {&journal.Operation{Phase: infrav1.HostDesiredReset}, "member/wal", member{fails: 5}, 6, false},
		"the Machine goes, no answer": {&journal.Operation{Phase: infrav1.HostDesiredReset}, "member/wal", member{fails: forever}, 31, false},
		"the Cluster goes":            {&journal.Operation{Phase: infrav1.HostDesiredReset, ClusterDeleting: true}, "member/wal", member{fails: forever}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := fakehost.New(t)
				baseline := recorded(t, h)
				put(t, h, "/var/lib/etcd/"+c.files, "")
				put(t, h, "/etc/kubernetes/manifests/etcd.yaml", "kind: Pod\nspec:\n  volumes:\n  - {name: etcd-data, hostPath: {path: /var/lib/etcd}}\n")
				h.Etcd = &c.member
				err := h.Executor.Reset(t.Context(), &progress{state: journal.State{Operation: c.operation, Baseline: baseline}})
				if c.member.tried != c.tried {
					t.Errorf("tried %d times, want %d", c.member.tried, c.tried)
				}
				if _, err := os.Stat(h.Root.Path("/etc/kubernetes/manifests/etcd.yaml")); (err == nil) != c.kept {
					t.Errorf("the manifest of etcd: %v, want it kept: %t", err, c.kept)
				}
				if slices.ContainsFunc(h.Programs.Ran(), func(s string) bool { return strings.HasPrefix(s, "kubeadm reset") }) == c.kept {
					t.Errorf("ran %q", h.Programs.Ran())
				}
				if e := (*operation.Error)(nil); c.kept != (errors.As(err, &e) && e.Retry == operation.RetryLater) {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

// A node makes directories. Those that were there before stay, and so does what somebody
// else has put into one.
func TestDirectoriesThatWereNotThereBefore(t *testing.T) {
	const plugins = "/usr/libexec/kubernetes/kubelet-plugins"
	for name, tc := range map[string]struct {
		before, node, gone, stay []string
	}{
		"bare host": {
			node: []string{"/etc/kubernetes/manifests", "/var/lib/kubelet", "/var/lib/cni", plugins + "/volume/exec", "/etc/ssl/certs"},
			gone: []string{"/etc/kubernetes", "/var/lib/kubelet", "/var/lib/cni", "/usr/libexec/kubernetes", "/etc/ssl"},
			stay: []string{"/etc", "/var/lib", "/usr/libexec"},
		},
		"host with packages": {
			before: []string{"/etc/kubernetes/manifests", "/var/lib/kubelet", plugins, "/etc/ssl/private"},
			node:   []string{"/var/lib/etcd/member", plugins + "/volume/exec", "/etc/ssl/certs"},
			gone:   []string{"/var/lib/etcd", plugins + "/volume", "/etc/ssl/certs"},
			stay:   []string{"/etc/kubernetes", "/var/lib/kubelet", plugins, "/etc/ssl/private"},
		},
		"driver of the operator": {
			before: []string{plugins + "/volume/exec/example.com~driver"},
			stay:   []string{plugins + "/volume/exec/example.com~driver"},
		},
		"driver of a pod": {
			node: []string{plugins + "/volume/exec/example.com~driver"},
			gone: []string{"/usr/libexec/kubernetes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			mkdir(t, h, append(tc.before, "/etc", "/var/lib", "/usr/libexec")...)
			baseline, err := h.Executor.Cleaner.Baseline(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			mkdir(t, h, tc.node...)
			// The second run is that of an agent which was interrupted at the end of the first.
			for range 2 {
				if err := h.Executor.Reset(t.Context(), &progress{state: journal.State{Baseline: baseline}}); err != nil {
					t.Fatal(err)
				}
			}
			for _, path := range tc.gone {
				if _, err := os.Lstat(h.Root.Path(path)); err == nil {
					t.Errorf("%s is left behind", path)
				}
			}
			for _, path := range tc.stay {
				if _, err := os.Lstat(h.Root.Path(path)); err != nil {
					t.Errorf("%s is gone", path)
				}
			}
		})
	}
}

// A host whose /usr is read-only has none of the directories there that a node makes, and is
// reset like others.
func TestReadOnlyUsr(t *testing.T) {
	h := fakehost.New(t)
	mkdir(t, h, "/etc", "/var/lib", "/usr")
	usr := h.Root.Path("/usr")
	if err := unix.Mount("slipway", usr, "tmpfs", 0, ""); err != nil {
		rights.Skip(t, "mounting a file system needs root:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(usr, unix.MNT_DETACH) })
	mkdir(t, h, "/usr/libexec")
	if err := unix.Mount("slipway", usr, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	baseline, err := h.Executor.Cleaner.Baseline(t.Context())
	if err != nil {
		t.Fatalf("%+v, %v", baseline, err)
	}
	if err := h.Executor.Reset(t.Context(), &progress{state: journal.State{Baseline: baseline}}); err != nil {
		t.Error(err)
	}
}

// A full reset takes the images and logs of workloads, and no image of the host's
// own; it proves nothing while one of them is left.
func TestFullReset(t *testing.T) {
	const list = "ctr --address /run/containerd/containerd.sock --namespace k8s.io images list"
	h := fakehost.New(t)
	put(t, h, "/var/log/pods/ns_pod/0.log", "")
	put(t, h, "/etc/default/kubelet", "")
	h.Programs.Answer = map[string]string{list: "own:1\n"}
	state := journal.State{Baseline: recorded(t, h)}
	h.Programs.Answer = map[string]string{list: "own:1\nworkload:1\nworkload:2\n"}
	state.Operation = &journal.Operation{Phase: infrav1.HostDesiredReset, ResetPolicy: infrav1.ResetPolicyKubeadm}
	if left, err := h.Executor.Verify(t.Context(), state); err != nil || len(left) != 0 {
		t.Fatalf("policy Kubeadm leaves images and logs alone, but left is %q, %v", left, err)
	}
	state.Operation.ResetPolicy = infrav1.ResetPolicyFull
	left, err := h.Executor.Verify(t.Context(), state)
	if got := strings.Join(left, "; "); err != nil || got != "container image workload:1; container image workload:2; file /var/log/pods/ns_pod/0.log" {
		t.Fatalf("left is %q, %v", got, err)
	}
	if err := h.Executor.Reset(t.Context(), &progress{state: state}); err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSuffix(list, "list") + "delete --sync workload:1 workload:2"; !slices.Contains(h.Programs.Ran(), want) {
		t.Errorf("ran %q, want %q", h.Programs.Ran(), want)
	}
	h.Programs.Answer[list] = "own:1\n"
	if left, err := h.Executor.Verify(t.Context(), state); err != nil || len(left) != 0 {
		t.Errorf("left %q, %v", left, err)
	}
	// Later checks of the free host must not take its own images for leftovers.
	state.Baseline = nil
	if left, err := h.Executor.Verify(t.Context(), state); err != nil || len(left) != 0 {
		t.Errorf("left on a free host %q, %v", left, err)
	}
}

func TestKubeletUnitThatDoesNotExist(t *testing.T) {
	h := fakehost.New(t)
	h.Programs.Fail = map[string]int{"systemctl stop kubelet": 5}
	if err := h.Executor.StopKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Programs.Fail = map[string]int{"systemctl stop kubelet": 1}
	if err := h.Executor.StopKubelet(t.Context()); err == nil {
		t.Fatal("no error although the kubelet could not be stopped")
	}
}
