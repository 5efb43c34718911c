package fakehost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects"
	"github.com/slipway-dev/slipway/internal/agent/effects/adopt"
	"github.com/slipway-dev/slipway/internal/agent/effects/bootstrap"
	"github.com/slipway-dev/slipway/internal/agent/effects/reset"
	"github.com/slipway-dev/slipway/internal/agent/effects/upgrade"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
	"github.com/slipway-dev/slipway/internal/agent/hostos/nodeaddress"
	"github.com/slipway-dev/slipway/internal/agent/vip"
)

// Host is a pretended host.
type Host struct {
	Root     hostfs.Root
	Executor *effects.Executor
	Programs *Programs
	Network  *Network
	// Node is the host's Node. Its kubelet reports when it is restarted.
	Node *Node
	// Etcd is the member of the host, of which a reset takes it.
	Etcd reset.Etcd
	// Clock of upgrades; each wait moves it on.
	Clock time.Time
	// PowerCut ends the agent at once, when there is one.
	PowerCut func()
	// Candidate is what the host may do about the virtual IP.
	Candidate func() vip.Candidate

	keeper *vip.Keeper
}

// noServer is the API server of a host that has none.
type noServer struct{ vip.Server }

// Lease implements vip.Server.
func (noServer) Lease(context.Context) (*coordinationv1.Lease, error) {
	return nil, vip.ErrNoControlPlane
}

// runningHostname stands for the name of the running system.
const runningHostname = "/run/hostname"

// Directory is where the host looks for Kubernetes versions.
const Directory = "/opt/slipway/kubernetes"

// New makes a clean host with one interface, eth0.
func New(t testing.TB) *Host {
	t.Helper()
	root := hostfs.Root(t.TempDir())
	for path, content := range map[string]string{
		"/proc/self/mountinfo": "", "/proc/net/tcp": "", "/proc/meminfo": "MemTotal: 1024 kB\n",
		"/proc/sys/kernel/random/boot_id": "boot-1\n", "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
		"/etc/group": "root:x:0:\n", "/var/lib/empty": "", "/run/empty": "", "/run/containerd/containerd.sock": "",
	} {
		write(t, root.Path(path), content)
	}
	for _, dir := range []string{"/root", "/home", "/etc/sudoers.d", "/usr/lib", "/usr/share", "/var/log", "/var/spool", "/var/tmp", "/tmp"} {
		if err := os.MkdirAll(root.Path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h := &Host{Root: root, Programs: &Programs{root: root}, Network: &Network{
		addresses: []network.Address{{Link: "eth0", Prefix: netip.MustParsePrefix("10.0.0.5/24")}},
	}}
	h.Network.AddLink(network.Link{Name: "eth0", Kind: "veth"})
	hostname := func() (string, error) {
		name, err := root.ReadFile(runningHostname)
		if err != nil {
			return "host-1", nil //nolint:nilerr // nobody has given it another one
		}
		return string(name), nil
	}
	setHostname := func(name string) error { return os.WriteFile(root.Path(runningHostname), []byte(name), 0o600) }
	system := command.System{Identity: filepath.Base(string(root)) + t.Name(), Log: io.Discard}
	log := slog.New(slog.NewTextHandler(testWriter{t}, nil))
	h.Candidate = func() vip.Candidate { return vip.Candidate{} }
	h.keeper = &vip.Keeper{
		Holder: vip.Holder{Network: h.Network, Log: log}, Now: time.Now, Log: log,
		Candidate: func() vip.Candidate { return h.Candidate() }, Server: noServer{},
	}
	versions := kubelet.Versions{Root: root, Runner: h.Programs, Directories: []string{Directory}}
	h.Node, h.Clock = NewNode(""), time.Now()
	h.Programs.On = map[string]func(){"systemctl restart kubelet": func() {
		target, _ := os.Readlink(root.Path("/usr/local/bin/kubelet"))
		h.Node.Report(filepath.Base(filepath.Dir(target)), h.Clock)
	}}
	cleaner := reset.Cleaner{
		Root: root, Runner: h.Programs, Network: h.Network, VIP: h.keeper, Probe: h.Network.Probe, CRISocket: "/run/containerd/containerd.sock",
		KillInterrupted: system.KillMarked, Log: log, Records: filepath.Join(t.TempDir(), "records"), Hostname: hostname, SetHostname: setHostname,
		ConnectEtcd: func(*corev1.Pod) (reset.Etcd, error) { return h.Etcd, nil },
	}
	h.Executor = &effects.Executor{
		// As on a worker.
		DeleteNode: func(context.Context, *corev1.Node) error { return fs.ErrNotExist },
		Root:       root, VIP: h.keeper, Log: log, Hostname: hostname, Interface: func() string { return "eth0" },
		Interfaces: h.Network.Interfaces, Versions: versions,
		Upgrader: upgrade.Upgrader{
			Root: root, Runner: h.Programs, Versions: versions, DrainTimeout: time.Minute, Log: log,
			Connect: func() (upgrade.Node, error) { return h.Node, nil },
			Switch: func(ctx context.Context, version string, progress operation.Progress) error {
				return effects.SelectVersion(ctx, versions, version, progress)
			},
			Now:   func() time.Time { return h.Clock },
			Sleep: func(ctx context.Context, d time.Duration) error { h.Clock = h.Clock.Add(d); return ctx.Err() },
		},
		Applier: bootstrap.Applier{
			Root: root, Runner: h.Programs, Shell: bootstrap.Shell{Root: root, System: system},
			Hostname: hostname, SetHostname: setHostname, Keep: cleaner.Keep,
		},
		Cleaner: cleaner,
		Adopter: adopt.Adopter{
			Root: root, Runner: h.Programs, Baseline: cleaner.NodeBaseline, Log: log,
			Connect: func([]byte) (adopt.Node, error) { return h.Node, nil },
		},
	}
	return h
}

// Install puts the programs of a Kubernetes version on the host.
func (h *Host) Install(t *testing.T, version string) {
	t.Helper()
	for _, program := range []string{"kubeadm", "kubectl", "kubelet"} {
		h.Put(t, filepath.Join(Directory, version, program), version)
	}
}

// Put writes a file of the host.
func (h *Host) Put(t testing.TB, path, content string) {
	t.Helper()
	write(t, h.Root.Path(path), content)
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

type testWriter struct{ t testing.TB }

// Write implements io.Writer. A goroutine may still log when the test has ended.
func (w testWriter) Write(p []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

// Programs is a command.Runner that records what it is asked to run.
type Programs struct {
	root hostfs.Root

	mu  sync.Mutex
	ran []string
	// Fail maps the beginning of a command line to its exit code.
	Fail map[string]int
	// Answer maps the beginning of a command line to its output.
	Answer map[string]string
	// Answers, when it is not nil, is asked for the output before Answer is.
	Answers func(line string) (string, bool)
	// On is called for a command line that begins so.
	On map[string]func()
	// Does, when it is not nil, is what a command line does besides; its error is the
	// program's.
	Does func(line string) error
	// Missing programs are not on PATH.
	Missing []string
}

// Has implements command.Runner.
func (p *Programs) Has(name string) bool {
	return !slices.Contains(p.Missing, name) && !strings.HasPrefix(name, "ip")
}

// Run implements command.Runner.
func (p *Programs) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	return p.RunInput(ctx, nil, name, args...)
}

// RunInput implements command.Runner.
func (p *Programs) RunInput(ctx context.Context, input []byte, name string, args ...string) ([]byte, error) {
	line := strings.Join(append([]string{name}, args...), " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(input) > 0 {
		line += " <<< " + strings.TrimSpace(string(input))
	}
	p.ran = append(p.ran, line)
	for prefix, code := range p.Fail {
		if strings.HasPrefix(line, prefix) {
			return nil, &command.ExitError{Program: name, Code: code}
		}
	}
	for prefix, effect := range p.On {
		if strings.HasPrefix(line, prefix) {
			effect()
		}
	}
	if p.Does != nil {
		if err := p.Does(line); err != nil {
			return nil, err
		}
	}
	last := ""
	if len(args) > 0 {
		last = args[len(args)-1]
	}
	if done, err := p.accounts(name, last, args, input); done {
		return nil, err
	}
	if p.Answers != nil {
		if out, answered := p.Answers(line); answered {
			return []byte(out), nil
		}
	}
	for prefix, out := range p.Answer {
		if strings.HasPrefix(line, prefix) {
			return []byte(out), nil
		}
	}
	if out, linked := p.version(line); linked {
		return []byte(out), nil
	}
	return []byte(p.kubelet(line)), ctx.Err()
}

// version is what a linked program answers when it is asked for its version.
func (p *Programs) version(line string) (string, bool) {
	for question, answer := range map[string]string{"kubelet --version": "Kubernetes ", "kubeadm version -o short": ""} {
		name, _, _ := strings.Cut(question, " ")
		target, err := os.Readlink(p.root.Path("/usr/local/bin/" + name))
		if line == question && err == nil {
			return answer + filepath.Base(filepath.Dir(target)) + "\n", true
		}
	}
	return "", false
}

// Ran returns the command lines so far.
func (p *Programs) Ran() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ran)
}

// RanPrefix counts the command lines that begin with the prefix.
func (p *Programs) RanPrefix(prefix string) int {
	n := 0
	for _, line := range p.Ran() {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// Network is a network.System and a vip.Network in memory.
type Network struct {
	mu        sync.Mutex
	state     map[network.Kind]map[string]string
	addresses []network.Address
	// Announced counts the announcements.
	Announced int
	// Neighbour is the hardware address that answers every probe.
	Neighbour string
}

// AddLink adds an interface, as a network plugin does.
func (n *Network) AddLink(l network.Link) { n.Put(network.Interfaces, l.Name, l.Fingerprint()) }

// AddRoute adds a route.
func (n *Network) AddRoute(text string) { n.Put(network.Routes, text, "route") }

// AddTable adds an nftables table.
func (n *Network) AddTable(t string) { n.Put(network.NFTables, "table "+t, "table") }

// Has reports whether the host has the address.
func (n *Network) Has(ip string) (found bool) {
	n.locked(func() {
		found = slices.ContainsFunc(n.addresses, func(a network.Address) bool { return a.Prefix.Addr().String() == ip })
	})
	return found
}

func (n *Network) locked(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// Entries implements network.System.
func (n *Network) Entries(kind network.Kind) (all map[string]string, _ error) {
	n.locked(func() { all = maps.Clone(n.state[kind]) })
	return all, nil
}

// RemoveEntries implements network.System. With an interface goes what is on it.
func (n *Network) RemoveEntries(kind network.Kind, names []string) error {
	n.locked(func() {
		for _, name := range names {
			delete(n.state[kind], name)
		}
		for of, all := range n.state {
			maps.DeleteFunc(all, func(name, is string) bool {
				return kind == network.Interfaces && slices.Contains(names, network.Device(of, name, is))
			})
		}
	})
	return nil
}

// RestoreEntries implements network.System. Nothing is restored on an interface that is gone.
func (n *Network) RestoreEntries(kind network.Kind, before map[string]string) (err error) {
	n.locked(func() {
		for name, is := range before {
			if link := network.Device(kind, name, is); link != "" && n.state[network.Interfaces][link] == "" {
				err = errors.Join(err, fmt.Errorf("restore %s: Link not found", name))
				continue
			}
			n.state[kind][name] = is
		}
	})
	return err
}

// Put adds an entry of a kind.
func (n *Network) Put(kind network.Kind, name, fingerprint string) {
	n.locked(func() {
		if n.state == nil {
			n.state = map[network.Kind]map[string]string{}
		}
		if n.state[kind] == nil {
			n.state[kind] = map[string]string{}
		}
		n.state[kind][name] = fingerprint
	})
}

// Names are the entries of a kind, sorted.
func (n *Network) Names(kind network.Kind) (names []string) {
	n.locked(func() { names = slices.Sorted(maps.Keys(n.state[kind])) })
	return names
}

// Addresses implements vip.Network.
func (n *Network) Addresses() (all []network.Address, _ error) {
	n.locked(func() { all = slices.Clone(n.addresses) })
	return all, nil
}

// Interfaces are the same for the choice of the node's addresses: eth0 has the default route of both
// families.
func (n *Network) Interfaces() (all []nodeaddress.Interface, _ error) {
	n.locked(func() {
		for _, a := range n.addresses {
			if len(all) == 0 || all[len(all)-1].Name != a.Link {
				all = append(all, nodeaddress.Interface{Name: a.Link, Kind: "veth", Default4: a.Link == "eth0", Default6: a.Link == "eth0"})
			}
			last := &all[len(all)-1]
			last.Addresses = append(last.Addresses, nodeaddress.Address{Addr: a.Prefix.Addr()})
		}
	})
	return all, nil
}

// DefaultLink implements vip.Network.
func (n *Network) DefaultLink(bool) (string, error) { return "eth0", nil }

// Add implements vip.Network.
func (n *Network) Add(link string, p netip.Prefix, _ time.Duration) error {
	n.locked(func() { n.addresses = append(n.addresses, network.Address{Link: link, Prefix: p}) })
	return nil
}

// Remove implements vip.Network.
func (n *Network) Remove(_ string, p netip.Prefix) error {
	n.locked(func() {
		n.addresses = slices.DeleteFunc(n.addresses, func(a network.Address) bool { return a.Prefix == p })
	})
	return nil
}

// Announce implements vip.Network.
func (n *Network) Announce(string, netip.Addr) error {
	n.locked(func() { n.Announced++ })
	return nil
}

// MAC implements vip.Network.
func (n *Network) MAC(string) string { return "02:00:00:00:00:05" }

// Probe implements vip.Network.
func (n *Network) Probe(string, netip.Addr) (mac string, _ error) {
	n.locked(func() { mac = n.Neighbour })
	return mac, nil
}
