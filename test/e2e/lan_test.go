package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/test/live"
)

// Addresses of the network between the two machines, which documentation has for itself.
const (
	planeAddress = "198.51.100.1"
	otherAddress = "198.51.100.2"
	gateway      = "10.88.0.1"
)

// lan is a network of two machines, as namespaces: one where commands of a plane run, and
// another one, which has no route but to the first.
type lan struct{ plane, other string }

func newLAN(t *testing.T, p *plane) lan {
	t.Helper()
	l := lan{plane: p.Name + "-m", other: p.Name + "-o"}
	t.Cleanup(func() {
		for _, name := range []string{l.plane, l.other} {
			if err := netns.DeleteNamed(name); err != nil && !errors.Is(err, unix.ENOENT) {
				t.Errorf("remove the namespace %s: %v", name, err)
			}
		}
	})
	planeNS, otherNS := newNamespace(t, l.plane), newNamespace(t, l.other)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	here, err := netlink.NewHandleAt(planeNS)
	must(err)
	defer here.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "eth0"
	must(here.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(otherNS)}))
	for ns, address := range map[netns.NsHandle]string{planeNS: planeAddress, otherNS: otherAddress} {
		h, err := netlink.NewHandleAt(ns)
		must(err)
		for _, name := range []string{"lo", "eth0"} {
			link, err := h.LinkByName(name)
			must(err)
			if name == "eth0" {
				a, err := netlink.ParseAddr(address + "/24")
				must(err)
				must(h.AddrAdd(link, a))
			}
			must(h.LinkSetUp(link))
		}
		h.Close()
	}
	return l
}

func newNamespace(t *testing.T, name string) netns.NsHandle {
	t.Helper()
	var ns netns.NsHandle
	if err := live.OnThread(func() (err error) {
		ns, err = netns.NewNamed(name)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	return ns
}

// in makes the run one inside a namespace.
func (i *invocation) in(namespace string) *invocation {
	i.Cmd = within(namespace, i.Cmd)
	i.Stdout, i.Stderr = &i.stdout, &i.stderr
	return i
}

func within(namespace string, cmd *exec.Cmd) *exec.Cmd {
	inside := exec.Command("nsenter", append([]string{"--net=/run/netns/" + namespace, "--", cmd.Path}, cmd.Args[1:]...)...)
	inside.Env = cmd.Env
	return inside
}

// otherMachines makes a plane listen for hosts on other machines: one that has no way into
// its namespace enrolls by the address. Then it listens for none again. The local hosts go
// on all the while.
func otherMachines(t *testing.T, p *plane) {
	l := newLAN(t, p)
	run := func(args ...string) string {
		t.Helper()
		i := p.command(args...).in(l.plane)
		if err := i.Run(); err != nil {
			t.Fatalf("slipway %s: %v\n%s", strings.Join(args, " "), err, i.stderr.String())
		}
		return i.stdout.String()
	}
	pid, agents := p.status().Plane.PID, p.agents()
	server := "https://" + net.JoinHostPort("plane.example", strconv.Itoa(p.Port))
	for _, c := range [][]string{
		{"198.51.100.77", "no such address", "ip -brief address"},
		{"name.invalid", "name.invalid", "/etc/hosts"},
	} {
		p.command("up", "--no-cluster", "--listen", c[0]).in(l.plane).refused(append(c[1:], "--listen "+c[0])...)
	}
	if out := run(append(oneHost, "--listen", net.JoinHostPort(planeAddress, strconv.Itoa(p.Port)), "--tls-san", "plane.example")...); !strings.Contains(out, server) {
		t.Errorf("up does not tell %s:\n%s", server, out)
	}
	t.Cleanup(func() {
		// Whatever came in between, the plane is the machine's again.
		p.must(append(oneHost, "--listen=")...)
		if s := p.status(); s.Plane.HostServer != "" {
			t.Errorf("hosts on other machines still reach the plane at %s", s.Plane.HostServer)
		}
		if now := p.agents(); strings.Join(pids(now), " ") != strings.Join(pids(agents), " ") {
			t.Errorf("the local host was touched: agents were %v, are %v", agents, now)
		}
	})
	if out := run("status"); !strings.Contains(out, "for other machines") || !strings.Contains(out, server) {
		t.Errorf("status does not tell %s:\n%s", server, out)
	}
	if out := run("status", "-o", "json"); strings.Contains(out, `"pid":`+strconv.Itoa(pid)+",") {
		t.Errorf("the plane was not started anew:\n%s", out)
	}
	bootstrap, err := clientcmd.Load([]byte(run("host", "token", "other-0")))
	if err != nil {
		t.Fatal(err)
	}
	cluster := bootstrap.Clusters[bootstrap.Contexts[bootstrap.CurrentContext].Cluster]
	if cluster.Server != server {
		t.Errorf("hosts are told %s, want %s", cluster.Server, server)
	}
	reached(t, l, p.Port, cluster.CertificateAuthorityData)
	enrolled(t, p, l, run)
	audited, err := os.ReadFile(filepath.Join(p.StateDir, "apiserver", "audit.log"))
	if err != nil || !strings.Contains(string(audited), `"sourceIPs":["`+otherAddress+`"]`) {
		t.Errorf("the audit log does not tell that %s called (%v)", otherAddress, err)
	}
}

func pids(numbers []int) []string {
	texts := make([]string, 0, len(numbers))
	for _, n := range numbers {
		texts = append(texts, strconv.Itoa(n))
	}
	return texts
}

// reached holds that the other machine gets to the API server, verifies it under each of its
// names, and gets nothing without credentials.
func reached(t *testing.T, l lan, port int, ca []byte) {
	t.Helper()
	dial := live.DialFrom(l.other)
	if c, err := dial(t.Context(), "tcp", net.JoinHostPort(gateway, "6443")); err == nil {
		_ = c.Close()
		t.Error("the other machine has a way into the namespace of the plane: the test proves nothing")
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for _, name := range []string{planeAddress, "plane.example"} {
		client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12},
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dial(ctx, network, net.JoinHostPort(planeAddress, strconv.Itoa(port)))
			},
		}}
		for path, want := range map[string]int{"/readyz": http.StatusOK, "/version": http.StatusUnauthorized, "/api/v1/secrets": http.StatusUnauthorized} {
			answer, err := client.Get("https://" + net.JoinHostPort(name, strconv.Itoa(port)) + path)
			if err != nil {
				t.Errorf("%s as %s: %v", path, name, err)
				continue
			}
			_ = answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("%s without credentials: %s, want %d", path, answer.Status, want)
			}
		}
		client.CloseIdleConnections()
	}
}

// enrolled runs an agent of a former version on the other machine with what `slipway host token`
// prints, until its Host tells that it serves. Then it installs a version, and updates itself.
func enrolled(t *testing.T, p *plane, l lan, run func(...string) string) {
	t.Helper()
	dir := t.TempDir()
	config, program := filepath.Join(dir, "agent.yaml"), filepath.Join(dir, "bin", "slipway-agent")
	live.FormerAgent(t, program)
	layout, key := hostBundle(t, p)
	content := "apiVersion: agent.slipway.dev/v1alpha1\nkind: AgentConfiguration\nnamespace: default\nhostName: other-1\n" +
		"bootstrapKubeconfig: " + filepath.Join(dir, "bootstrap") + "\nstateDir: " + filepath.Join(dir, "state") + "\nkubernetesDirectories: [" + dir + "]\n" +
		"software: {management: Managed, publicKeyFile: " + key + ", sources: [management]}\n"
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	// The other machine knows no names.
	server := "https://" + net.JoinHostPort(planeAddress, strconv.Itoa(p.Port))
	line := strings.Fields(run("host", "token", "other-1", "--join-command", "--server", server))
	agent := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Env = p.Environ()
		return within(l.other, cmd)
	}
	if out, err := agent(append(line[1:], "--config", config)...).CombinedOutput(); err != nil {
		t.Fatalf("join: %v\n%s", err, out)
	}
	running := agent("run", "-config", config)
	log, err := os.Create(filepath.Join(t.ArtifactDir(), "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	running.Stdout, running.Stderr = log, log
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			_ = running.Process.Signal(syscall.SIGTERM)
			_ = running.Wait() // nsenter became the agent, which tells nothing more
		}
	}
	defer end()
	p.waitFor("report of the agent on the other machine", func() bool {
		out := run("host", "list", "-o", "wide")
		for line := range strings.Lines(out) {
			if strings.Contains(line, "other-1") && strings.Contains(line, otherAddress) {
				return true
			}
		}
		return false
	})
	run("bundle", "load", layout, "--public-key", key)
	fetched(t, run, agent, config, key)
	updated(t, p, l, run, running.Process.Pid, program)
	end()
	run("host", "remove", "other-1", "--no-ssh")
}
