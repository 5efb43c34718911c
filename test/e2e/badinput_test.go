package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
	"github.com/slipway-dev/slipway/test/live"
	"github.com/slipway-dev/slipway/test/logs"
)

// oneHost are the flags of a plane that is enough to try most things on.
var oneHost = []string{"up", "--fast", "--no-cluster", "--hosts", "1"}

var clusterFile = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: a}
spec:
  topology:
    classRef: {name: slipway-local}
    version: ` + current + `
    controlPlane: {replicas: 1}
`

// TestRefused is what is refused before anything is started: it must leave
// nothing, not even a state directory.
func TestRefused(t *testing.T) {
	p := newPlane(t, 0)
	before := p.Look(t, p.bin)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := strconv.Itoa(busy.Addr().(*net.TCPAddr).Port)
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "thesis.tex"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "cluster.yaml")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	noPlane := []string{"slipway up", "--state-dir"}
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"busy port", []string{"up", "--no-cluster", "--api-port", port}, []string{"port " + port, "--api-port"}},
		{"bad port", []string{"up", "--api-port", "70000"}, []string{"--api-port 70000", "65535"}},
		{"listen at a URL", []string{"up", "--listen", "https://192.0.2.1:6443"}, []string{"--listen", "without a scheme", "192.0.2.10:6443"}},
		{"listen at no port", []string{"up", "--listen", "192.0.2.1:0"}, []string{"--listen", "1 to 65535"}},
		{"listen on loopback", []string{"up", "--listen", "127.0.0.1"}, []string{"--listen 127.0.0.1:6443", "no other one reaches"}},
		{"listen at another machine's address", []string{"up", "--listen", "192.0.2.1"}, []string{"--listen 192.0.2.1:6443", "no such address", "ip -brief address"}},
		{"listen everywhere", []string{"up", "--listen", "0.0.0.0"}, []string{"--listen 0.0.0.0", "--tls-san"}},
		{"names of nothing", []string{"up", "--tls-san", "plane.example"}, []string{"--tls-san", "--listen"}},
		{"bad timeout", []string{"up", "--timeout", "-1s"}, []string{"--timeout -1s", "10m"}},
		{"bad name", []string{"up", "--name", "A B"}, []string{"--name"}},
		{"no bundle", []string{"up", "--bundle", "/nowhere"}, []string{"/nowhere", "make build", "--bundle"}},
		{"directory of somebody else", []string{"up", "--state-dir", foreign}, []string{foreign, "choose a new directory"}},
		{"directory with a space", []string{"up", "--state-dir", foreign + "/a b"}, []string{"--state-dir", "without spaces"}},
		{"directory that cannot be", []string{"up", "--state-dir", "/proc/slipway"}, []string{"--state-dir", "/proc/slipway"}},
		{"no such file", []string{"up", "-f", "/nowhere.yaml"}, []string{"--file", "/nowhere.yaml"}},
		{"no YAML", []string{"up", "-f", file("a: [")}, []string{"document 1", "not a YAML object"}},
		{"empty", []string{"up", "-f", file("# nothing\n")}, []string{"no object in it", "leave out -f"}},
		{"unknown field", []string{"up", "-f", file(strings.Replace(clusterFile, "classRef", "klass", 1))}, []string{"document 1", "Cluster a", "klass"}},
		{"unknown class", []string{"up", "-f", file(strings.Replace(clusterFile, "slipway-local", "nope", 1))}, []string{"nope", "slipway-local", "classRef.name"}},
		{"too few hosts", []string{"up", "--hosts", "2", "-f", file(strings.Replace(clusterFile, "replicas: 1", "replicas: 3", 1))}, []string{"3 hosts", "--hosts"}},
		{"too few hosts for the default", []string{"up", "--hosts", "1"}, []string{"3 hosts", "--hosts"}},
		{"too few hosts for three control planes", []string{"up", "--hosts", "4", "--control-planes", "3"}, []string{"5 hosts", "--hosts"}},
		{"even control planes", []string{"up", "--control-planes", "2"}, []string{"--control-planes 2", "1, 3 or 5", "etcd"}},
		{"too many hosts", []string{"up", "--hosts", "1000"}, []string{"1000 hosts"}},
		{"negative hosts", []string{"up", "--hosts", "-1"}, []string{"--hosts -1"}},
		{"beside nobody", []string{"up", "--beside", "nobody"}, []string{"--beside nobody", "slipway up --name nobody"}},
		{"beside another, with hosts", []string{"up", "--beside", "nobody", "--hosts", "2"}, []string{"--hosts", "beside another"}},
		{"file and no cluster", []string{"up", "--no-cluster", "-f", "x"}, []string{"no-cluster"}},
		{"unknown flag", []string{"up", "--nope"}, []string{"--nope", "up --help"}},
		{"unknown command", []string{"nope"}, []string{"nope"}},
		{"unknown command for hosts", []string{"host", "nope"}, []string{"nope"}},
		{"host not named", []string{"host", "cut"}, []string{"cut HOST", "host list"}},
		{"bad format", []string{"status", "-o", "xml"}, []string{"xml", "json"}},
		{"status without a plane", []string{"status"}, noPlane},
		{"kubeconfig without a plane", []string{"kubeconfig"}, noPlane},
		{"hosts without a plane", []string{"host", "list"}, noPlane},
		{"cut without a plane", []string{"host", "cut", "host-1"}, noPlane},
		{"token without a plane", []string{"host", "token"}, noPlane},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := *p
			q.t = t
			q.refused(c.args, c.want...)
			if _, err := os.Stat(p.StateDir); !os.IsNotExist(err) {
				t.Errorf("a state directory was left: %v", err)
			}
		})
	}
	t.Run("no root", func(t *testing.T) {
		q := *p
		q.t = t
		q.command("up").asNobody().refused("sudo")
	})
	for range 2 {
		if out := p.must("down"); !strings.Contains(out, "Nothing to take down") {
			t.Errorf("down of nothing says %q", out)
		}
	}
	before.AssertUnchanged(t)
}

// TestOnePlane is what users and crashes do to a plane that is there.
func TestOnePlane(t *testing.T) {
	level.Deep(t)
	p := newPlane(t, 1)
	before := p.Look(t, p.bin)
	first := p.command(append(oneHost, "--logging-format", "json")...).start()
	p.waitFor("a lock", func() bool {
		_, err := os.Stat(filepath.Join(p.StateDir, "status.json"))
		return err == nil
	})
	p.refused(oneHost, "another slipway command", strconv.Itoa(first.Process.Pid), "wait for it")
	p.refused([]string{"down"}, "another slipway command", "wait for it")
	if err := first.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, first.stderr.String())
	}

	for _, step := range []struct {
		name string
		run  func(*testing.T, *plane)
	}{
		{"a second up continues", secondUp},
		{"a plane that runs is not changed", unchangeable},
		{"names that are not there", unknownNames},
		{"without root", withoutRoot},
		{"JSON and completion", machineReadable},
		{"a cluster that others manage", managedByOthers},
		{"hosts on other machines", otherMachines},
		{"a host for another namespace", assignHost},
		{"kill -9 of the agent", killAgent},
		{"kill -9 of the plane", killServe},
		{"the log in JSON", jsonLog},
		{"down", downTwice},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			q := *p
			q.t = t
			step.run(t, &q)
		}) {
			return
		}
	}
	before.AssertUnchanged(t)
}

// jsonLog holds that all that the plane and its parts wrote is as documented, over each of its
// starts.
func jsonLog(t *testing.T, p *plane) {
	logs.Check(t, filepath.Join(p.StateDir, "plane.log"))
}

func (p *plane) waitFor(what string, ok func() bool) {
	p.t.Helper()
	poll.True(p.t, what, ok)
}

// managedByOthers: a HostCluster with the annotation managed-by is what its manager says, down
// to that it is there. Upstream's controllers go by that, and it goes when they delete it.
func managedByOthers(t *testing.T, p *plane) {
	p.apply("", `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: foreign, namespace: default}
spec:
  infrastructureRef: {apiGroup: infrastructure.slipway.dev, kind: HostCluster, name: foreign}
---
apiVersion: infrastructure.slipway.dev/v1beta2
kind: HostCluster
metadata: {name: foreign, namespace: default, annotations: {cluster.x-k8s.io/managed-by: terraform}}
spec:
  controlPlaneEndpoint: {host: 10.88.0.240, port: 6443}
`)
	p.mustKubectl("", "patch", "hostcluster", "foreign", "--subresource=status", "--type=merge", "-p", `{"status":{"initialization":{"provisioned":true}}}`)
	p.mustKubectl("", "wait", "--for=jsonpath={.status.initialization.infrastructureProvisioned}=true", "cluster/foreign", live.Waits())
	if ours := p.mustKubectl("", "get", "hostcluster", "foreign", "-o", "jsonpath={.metadata.finalizers}{.status.conditions}{.status.failureDomains}"); strings.TrimSpace(ours) != "" {
		t.Errorf("the HostCluster of somebody else was touched: %s", ours)
	}
	p.mustKubectl("", "delete", "cluster", "foreign", live.Waits())
	if left := p.mustKubectl("", "get", "hostcluster", "-o", "name"); strings.TrimSpace(left) != "" {
		t.Errorf("left of the cluster: %s", left)
	}
}

func secondUp(t *testing.T, p *plane) {
	pid := p.status().Plane.PID
	p.must(append(append([]string{"up"}, p.Flags()...), oneHost[1:]...)...)
	if s := p.status(); s.Plane.PID != pid || len(s.Hosts) != 1 {
		t.Errorf("plane was process %d, is %d; %d hosts", pid, s.Plane.PID, len(s.Hosts))
	}
}

func unchangeable(_ *testing.T, p *plane) {
	p.refused([]string{"up", "--no-cluster", "--name", "other"}, "--name other", "--state-dir")
	p.refused([]string{"up", "--no-cluster", "--api-port", "1234"}, "--api-port 1234", "slipway down")
	p.refused([]string{"up", "--no-cluster", "--fast=false"}, "--fast", "slipway down")
	file := filepath.Join(p.t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(clusterFile, "slipway-local", "nope", 1)), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.refused([]string{"up", "-f", file}, "nope", "slipway-local")
	// Another state directory with the name of this plane would tear it down.
	q := *p
	q.StateDir = filepath.Join(p.t.TempDir(), "s")
	q.refused([]string{"up", "--no-cluster", "--api-port", strconv.Itoa(shared.FreePort(p.t))}, p.StateDir, "--name")
	if _, err := os.Stat(q.StateDir); !os.IsNotExist(err) {
		p.t.Errorf("a state directory was left: %v", err)
	}
}

func unknownNames(_ *testing.T, p *plane) {
	for _, args := range [][]string{{"cut", "nope"}, {"heal", "nope"}, {"power-cycle", "nope"}, {"power-off", "nope"}, {"power-on", "nope"}, {"shell", "nope"}, {"logs", "nope"}, {"cut", "../../etc"}} {
		p.refused(append([]string{"host"}, args...), args[1])
	}
	p.refused([]string{"host", "cut", "nope"}, "slipway host list")
	p.refused([]string{"host", "logs", "host-1", "nope"}, "nope", "kubelet")
	p.refused([]string{"host", "logs", "host-1", "--tail", "-1"}, "--tail -1")
	p.refused([]string{"kubeconfig", "nope"}, "default/nope", "slipway status")
	p.refused([]string{"host", "token", "--ttl", "-1h"}, "--ttl")
}

func withoutRoot(_ *testing.T, p *plane) {
	for _, args := range [][]string{{"status"}, {"kubeconfig"}, {"host", "list"}, {"down"}} {
		p.command(args...).asNobody().refused("sudo")
	}
}

func machineReadable(t *testing.T, p *plane) {
	for _, args := range [][]string{{"status"}, {"host", "list"}, {"version"}} {
		if out := p.must(append(args, "-o", "json")...); !json.Valid([]byte(out)) {
			t.Errorf("%v -o json: %s", args, out)
		}
	}
	for _, args := range [][]string{{"host", "cut", ""}, {"host", "shell", "h"}, {"host", "logs", ""}} {
		out := p.must(append([]string{"__complete"}, args...)...)
		if !slices.Contains(strings.Fields(out), "host-1") {
			t.Errorf("completion of %v: %s", args, out)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := p.must("completion", shell); len(out) < 1000 {
			t.Errorf("completion %s: %s", shell, out)
		}
	}
}

// assignHost: a namespace that was made a moment ago gets a host, which stays there over a
// power cut and another up, and comes back.
func assignHost(t *testing.T, p *plane) {
	p.mustKubectl("", "create", "namespace", "team-b")
	in := func(namespace string) {
		t.Helper()
		p.mustKubectl("", "-n", namespace, "wait", "--for=condition=Available", "host/host-1", live.Waits())
		if all := p.mustKubectl("", "get", "hosts", "-A", "-o", "jsonpath={.items[*].metadata.namespace}"); strings.TrimSpace(all) != namespace {
			t.Errorf("there are Hosts in %s", all)
		}
		if says := p.must("host", "shell", "host-1", "--", "slipway-agent", "status", "-o", "json"); !strings.Contains(says, `"namespace": "`+namespace+`"`) {
			t.Errorf("the agent says %s", says)
		}
	}
	p.refused([]string{"host", "assign", "host-1", "--to", "team-c"}, "team-c", "kubectl create namespace")
	agents := p.agents()
	if out := p.must("host", "assign", "host-1", "--to", "team-b"); !strings.Contains(out, "Assigned") {
		t.Errorf("it says %q", out)
	}
	in("team-b")
	if now := p.agents(); !slices.Equal(now, agents) {
		t.Errorf("agents were %v, are %v", agents, now)
	}
	p.must("host", "power-cycle", "host-1")
	p.waitFor("an agent that starts", func() bool { now := p.agents(); return len(now) == 1 && now[0] != agents[0] })
	in("team-b")
	p.must(append(append([]string{"up"}, p.Flags()...), oneHost[1:]...)...)
	in("team-b")
	p.must("host", "assign", "host-1", "-n", "team-b", "--to", "default")
	in("default")
}

// agents are the processes of slipway-agent on the hosts of p.
func (p *plane) agents() []int { return p.ProcessesOn("[^/]+", "slipway-agent") }

func killAgent(t *testing.T, p *plane) {
	before := p.agents()
	if len(before) != 1 {
		t.Fatalf("agents of one host: %v", before)
	}
	if err := syscall.Kill(before[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.waitFor("new agent", func() bool {
		now := p.agents()
		return len(now) == 1 && now[0] != before[0]
	})
	p.eventually("the host is available", func(s status) string {
		if len(s.Hosts) == 1 && s.Hosts[0].Phase == "Available" {
			return ""
		}
		return "not available"
	})
}

// killServe: a plane that is killed is started again by its supervisor, and status says so; one whose supervisor was
// killed goes on, and is started by the next up; the host never notices.
func killServe(t *testing.T, p *plane) {
	agents := p.agents()
	pid := p.status().Plane.PID
	again := func() {
		t.Helper()
		p.eventually("another plane is ready", func(s status) string {
			if !s.Plane.Ready || s.Plane.PID == pid {
				return fmt.Sprintf("plane %+v", s.Plane)
			}
			return ""
		})
		if now := p.agents(); !slices.Equal(now, agents) {
			t.Errorf("the host was touched: agents were %v, are %v", agents, now)
		}
	}
	live.Kill(t, pid)
	again()
	if s := p.status(); s.Plane.Crashes.Count != 1 || s.Plane.Crashes.Reason != "killed by SIGKILL" {
		t.Errorf("plane %+v", s.Plane)
	}

	p.KillAll(t)
	if s := p.status(); s.Plane.Ready || s.Plane.PID != 0 {
		t.Errorf("a dead plane is ready: %+v", s.Plane)
	}
	p.refused([]string{"kubeconfig"}, "not running", "slipway up")
	p.refused([]string{"kubeconfig", "a"}, "not running", "slipway up")
	if out := p.must("host", "list"); !strings.Contains(out, "host-1") {
		t.Errorf("the host went with the plane:\n%s", out)
	}
	p.must(oneHost...)
	again()
}

func downTwice(t *testing.T, p *plane) {
	for range 2 {
		p.must("down")
	}
	p.refused([]string{"kubeconfig"}, "not running", "slipway up")
	if s := p.status(); s.Plane.Ready || s.Plane.PID != 0 {
		t.Errorf("status after down: %+v", s.Plane)
	}
	p.must("down", "--purge", "--yes")
	if out := p.must("down", "--purge", "--yes"); !strings.Contains(out, "Nothing to take down") {
		t.Errorf("down of nothing says %q", out)
	}
	if _, err := os.Stat(p.StateDir); !os.IsNotExist(err) {
		t.Errorf("the state directory is still there: %v", err)
	}
}

// TestInterruptedUp stops `up` at several moments, kindly and not.
func TestInterruptedUp(t *testing.T) {
	level.Deep(t)
	p := newPlane(t, 1)
	before := p.Look(t, p.bin)
	for _, after := range []time.Duration{50, 150, 250, 400} {
		// `down` at once must find whatever the dead command had begun.
		_ = p.command(oneHost...).start().interrupt(after*time.Millisecond, syscall.SIGKILL)
		p.must("down", "--purge", "--yes")
		before.AssertUnchanged(t)
	}
	p.command(append(oneHost, "--timeout", "300ms")...).refused("not all is ready after 300ms: plane", "status --watch` shows", "up` goes on waiting")
	for i, after := range []time.Duration{20, 100, 300, 700, 1500, 3000} {
		if i%2 == 1 {
			_ = p.command(oneHost...).start().interrupt(after*time.Millisecond, syscall.SIGKILL)
			continue
		}
		up := p.command(oneHost...).start()
		if err := up.interrupt(after*time.Millisecond, syscall.SIGINT); err != nil && up.stderr.Len() > 0 {
			up.assertRefused(err, "interrupted", "up` goes on", "down")
		}
	}
	p.must(append(append([]string{"up"}, p.Flags()...), oneHost[1:]...)...)
	p.eventually("the host is available", func(s status) string {
		if s.Plane.Ready && len(s.Hosts) == 1 && s.Hosts[0].Phase == "Available" {
			return ""
		}
		return "not available"
	})
	p.must("down", "--purge", "--yes")
	before.AssertUnchanged(t)
}

// TestFullDisk runs out of room before the start and goes on once there is some.
func TestFullDisk(t *testing.T) {
	level.Deep(t)
	p := newPlane(t, 1)
	if err := os.Mkdir(p.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", p.StateDir, "tmpfs", 0, "size=64m,mode=700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(p.StateDir, 0); err != nil {
			t.Error(err)
		}
	})
	before := p.Look(t, p.bin)
	p.refused(oneHost, "disk", p.StateDir, "free some space", "--state-dir")
	if err := syscall.Mount("none", p.StateDir, "tmpfs", syscall.MS_REMOUNT, "size=1700m"); err != nil {
		t.Fatal(err)
	}
	p.must(append(append([]string{"up"}, p.Flags()...), oneHost[1:]...)...)

	// A disk that is full while the plane runs must not keep it from going down.
	full, err := os.Create(filepath.Join(p.StateDir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	chunk := make([]byte, 1<<20)
	for err == nil {
		_, err = full.Write(chunk)
	}
	p.must("down")
	p.refused(oneHost, "disk", "free some space")
	p.must("down", "--purge", "--yes")
	before.AssertUnchanged(t)
}
