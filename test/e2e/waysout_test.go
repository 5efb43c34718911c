package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/live"
)

// TestWaysOut has hosts whose agent knows something else than their Host, or nothing, and runs each command that
// the messages name: no command is lost, none is harmful when it is repeated, and what runs runs on.
func TestWaysOut(t *testing.T) {
	level.Deep(t)
	p := newPlane(t, 3)
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	workers := "machinePools: [{class: default-worker, name: pool, replicas: 1}], machineDeployments: [{class: default-worker, name: md, replicas: 1}]"
	if err := os.WriteFile(file, []byte(clusterOf(current, workers)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.up("--fast", "--hosts", "3", "-f", file)
	p.eventually("three ready nodes", all(readyNodes(3), poolReady(1)))
	p.apply("local", live.Workload)
	p.mustKubectl("local", "rollout", "status", "deployment/echo", live.Waits())
	for _, step := range []struct {
		name string
		run  func(*testing.T, *plane)
	}{
		{"a Host was deleted by force: adopt gives the node back to its HostMachine", givenBack},
		{"the HostMachine is gone, too, with the Host's second deletion: adopt makes a new one", madeAgain},
		{"the management cluster was restored from before the claim: reset", resetAfterRestore},
		{"a node's journal is damaged: its release ends in a quarantine that clear-quarantine ends", lostWhileANode},
		{"a free host's journal is empty: reset, then clear-quarantine, which holds until the next claim", lostWhileFree},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			q := *p
			q.t = t
			step.run(t, &q)
		}) {
			return
		}
	}
}

// hostReason waits until the Host has that phase, and that reason of Ready.
func hostReason(p *plane, host, want string) {
	p.t.Helper()
	p.eventually(host+" is "+want, func(status) string {
		got, err := p.kubectl("", "get", "host", host, "-o", `jsonpath={.status.phase} {.status.conditions[?(@.type=="Ready")].reason}: {.status.conditions[?(@.type=="Ready")].message}`)
		if err != nil {
			return err.Error()
		}
		if is, _, _ := strings.Cut(got, ":"); is != want {
			return fmt.Sprintf("got %q", got)
		}
		return ""
	})
}

// request carries out a command of hosts, and returns phase and message that it prints.
func request(p *plane, args ...string) (phase, message string, done bool) {
	p.t.Helper()
	var all []struct {
		Phase, Message string
		Done           bool
	}
	out := p.must(append([]string{"host"}, append(args, "-o", "json")...)...)
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 1 {
		p.t.Fatalf("%q prints %q (%v)", args, out, err)
	}
	return all[0].Phase, all[0].Message, all[0].Done
}

// agent stops, starts or changes what a host's agent has.
func agent(p *plane, host, script string) {
	p.t.Helper()
	p.on(host, "sh", "-ec", "cd /var/lib/slipway-agent; "+script)
}

// forced deletes objects in spite of their finalizers.
func forced(p *plane, objects ...string) {
	p.t.Helper()
	for _, object := range objects {
		p.mustKubectl("", "delete", object, "--wait=false")
		if out, err := p.kubectl("", "patch", object, "--type", "merge", "-p", `{"metadata":{"finalizers":null}}`); err != nil && !strings.Contains(out, "NotFound") {
			p.t.Fatal(err)
		}
	}
}

// enrolledAgain does what docs/hosts.md says of a host whose Host was deleted.
func enrolledAgain(p *plane, host string) {
	p.t.Helper()
	p.on(host, "sh", "-ec", p.must("host", "token", host, "--join-command"))
	agent(p, host, "systemctl stop slipway-agent; rm -f client.pem enrollment.crt; systemctl start slipway-agent")
}

// forgotten deletes Machine and HostMachine of a host by force while its Cluster is paused, and whatever else do
// deletes; then the workers of that kind are so many.
func forgotten(p *plane, host, workers string, replicas int, do func()) {
	p.t.Helper()
	machine := hostMachineOf(p, host)
	owner := p.mustKubectl("", "get", "hostmachine", machine, "-o", `jsonpath={.metadata.ownerReferences[?(@.kind=="Machine")].name}`)
	p.mustKubectl("", "patch", "cluster", "local", "--type", "merge", "-p", `{"spec":{"paused":true}}`)
	p.eventually("paused", func(status) string {
		return differs("True", p.mustKubectl("", "get", "hostmachine", machine, "-o", `jsonpath={.status.conditions[?(@.type=="Paused")].status}`))
	})
	forced(p, "machine/"+owner, "hostmachine/"+machine)
	do()
	p.mustKubectl("", "patch", "cluster", "local", "--type", "json", "-p", fmt.Sprintf(
		`[{"op":"replace","path":"/spec/topology/workers/%s/0/replicas","value":%d},{"op":"replace","path":"/spec/paused","value":false}]`, workers, replicas))
}

func givenBack(_ *testing.T, p *plane) {
	worker := ofDeployment(p)
	node, pods, machine := nodeOf(p, worker), podsOn(p, worker), hostMachineOf(p, worker)
	forced(p, "host/"+worker)
	enrolledAgain(p, worker)
	hostReason(p, worker, "Quarantined PreviousClaim")
	for range 2 { // the second time it changes nothing
		if phase, message, done := request(p, "adopt", worker); phase != "Running" || !done {
			p.t.Errorf("adopt: %s, %q, done %t", phase, message, done)
		}
	}
	hostReason(p, worker, "Running Running")
	if now := hostMachineOf(p, worker); now != machine {
		p.t.Errorf("the host was of %s, and is of %s", machine, now)
	}
	assertUnmoved(p, worker, node, pods)
	p.eventually("the cluster is whole", all(readyNodes(3), poolReady(1)))
}

// ofDeployment is the host of the only machine of the MachineDeployment: of a pool core deletes the Node with the HostMachine.
func ofDeployment(p *plane) string {
	p.t.Helper()
	for _, host := range p.status().Hosts {
		if strings.HasPrefix(host.ClaimedBy, "local/local-md") {
			return host.Name
		}
	}
	p.t.Fatal("no host of the MachineDeployment")
	return ""
}

func madeAgain(_ *testing.T, p *plane) {
	worker := ofDeployment(p)
	node, pods := nodeOf(p, worker), podsOn(p, worker)
	agent(p, worker, "systemctl stop slipway-agent")
	forgotten(p, worker, "machineDeployments", 0, func() { forced(p, "host/"+worker) })
	enrolledAgain(p, worker)
	hostReason(p, worker, "Quarantined PreviousClaim")
	if _, err := p.run("host", "adopt", worker); err == nil || !strings.Contains(err.Error(), "--cluster") {
		p.t.Errorf("adopt without a cluster: %v", err)
	}
	for range 2 {
		if phase, message, done := request(p, "adopt", worker, "--cluster", "local", "--machine", "adopted"); phase != "Running" || !done {
			p.t.Errorf("adopt: %s, %q, done %t", phase, message, done)
		}
	}
	p.eventually("its Machine has the Node", func(status) string {
		return differs("Running "+worker+" Running", p.mustKubectl("", "get", "machine", "adopted", "-o", "jsonpath={.status.phase} {.status.nodeRef.name}")+
			" "+p.mustKubectl("", "get", "host", worker, "-o", "jsonpath={.status.phase}"))
	})
	assertSameNode(p, worker, node, pods)
	released(p, worker)
}

// restoredHost is a Host as a backup has it.
func restoredHost(p *plane, host string) string {
	p.t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(p.mustKubectl("", "get", "host", host, "-o", "json")), &object); err != nil {
		p.t.Fatal(err)
	}
	meta := object["metadata"].(map[string]any) //nolint:forcetypeassert // the API has it so
	object["metadata"] = map[string]any{"name": meta["name"], "namespace": meta["namespace"], "labels": meta["labels"]}
	delete(object, "status")
	data, err := json.Marshal(object)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

func resetAfterRestore(_ *testing.T, p *plane) {
	free := ""
	for _, h := range p.status().Hosts {
		if h.ClaimedBy == "" {
			free = h.Name
		}
	}
	backup := restoredHost(p, free)
	p.must("cluster", "scale", "local", "--pool", "pool=2", "--wait")
	agent(p, free, "systemctl stop slipway-agent")
	forgotten(p, free, "machinePools", 1, func() {
		forced(p, "host/"+free)
		p.apply("", backup)
	})
	enrolledAgain(p, free)
	hostReason(p, free, "Quarantined PreviousClaim")
	if out := p.on(free, "systemctl", "is-active", "kubelet"); strings.TrimSpace(out) != "active" {
		p.t.Errorf("the kubelet of a node that nobody claims is %s", out)
	}

	agent(p, free, "systemctl stop slipway-agent")
	p.eventually("the agent is away", func(status) string {
		return differs("False", p.mustKubectl("", "get", "host", free, "-o", `jsonpath={.status.conditions[?(@.type=="AgentConnected")].status}`))
	})
	if _, message, done := request(p, "reset", free); done || !strings.Contains(message, "the request is recorded") {
		p.t.Errorf("reset while the agent is away: %q, done %t", message, done)
	}
	agent(p, free, "systemctl start slipway-agent")
	hostReason(p, free, "Available Available")
	if _, err := p.run("host", "reset", free); err == nil || !strings.Contains(err.Error(), "is clean") {
		p.t.Errorf("reset of a clean host: %v", err)
	}
}

func lostWhileANode(t *testing.T, p *plane) {
	worker := aWorker(p)
	machine := hostMachineOf(p, worker)
	node, pods := nodeOf(p, worker), podsOn(p, worker)
	agent(p, worker, "systemctl stop slipway-agent; sed -i 's/:/;/' journal; systemctl start slipway-agent")
	p.eventually("the host says that its journal is lost", func(status) string {
		return differs("False JournalLost", p.mustKubectl("", "get", "host", worker, "-o",
			`jsonpath={.status.conditions[?(@.type=="RecordKept")].status} {.status.conditions[?(@.type=="RecordKept")].reason}`))
	})
	assertUnmoved(p, worker, node, pods)
	if now := hostMachineOf(p, worker); now != machine {
		t.Errorf("the host was of %s, and is of %s", machine, now)
	}
	p.must("cluster", "scale", "local", "--pool", "pool=0")
	p.eventually(worker+" is quarantined", func(status) string {
		return differs("Quarantined", p.mustKubectl("", "get", "host", worker, "-o", "jsonpath={.status.phase}"))
	})
	if out := p.on(worker, "sh", "-c", "ls /etc/kubernetes /etc/cni/net.d 2>/dev/null; pidof kubelet || true"); strings.Contains(out, ".conf") {
		t.Errorf("leftovers of the node are %q", out)
	}
	clearedOnce(p, worker)
}

// clearedOnce confirms that a host is clean, twice: the second time the answer is that it is.
func clearedOnce(p *plane, host string) {
	p.t.Helper()
	if phase, message, done := request(p, "clear-quarantine", host); !done {
		p.t.Errorf("clear-quarantine: %s, %q", phase, message)
	}
	hostReason(p, host, "Available Available")
	if _, err := p.run("host", "clear-quarantine", host); err == nil || !strings.Contains(err.Error(), "is clean") {
		p.t.Errorf("clear-quarantine of a clean host: %v", err)
	}
}

func lostWhileFree(t *testing.T, p *plane) {
	free := ""
	for _, h := range p.status().Hosts {
		if h.Phase == "Available" {
			free = h.Name
		}
	}
	agent(p, free, "systemctl stop slipway-agent; : >journal; systemctl start slipway-agent")
	hostReason(p, free, "Quarantined RecordLost")
	if out, err := p.run("host", "reset", free); err == nil || !strings.Contains(err.Error(), "clear-quarantine") {
		t.Errorf("reset of a host without a record: %s, %v", out, err)
	}
	clearedOnce(p, free)
	started := p.mustKubectl("", "get", "lease", "-n", "default", free, "-o", "jsonpath={.spec.renewTime}")
	agent(p, free, "systemctl stop slipway-agent; rm journal; systemctl start slipway-agent")
	p.eventually("the agent is back", func(status) string {
		if p.mustKubectl("", "get", "lease", "-n", "default", free, "-o", "jsonpath={.spec.renewTime}") == started {
			return "it has sent no heartbeat"
		}
		return ""
	})
	hostReason(p, free, "Available Available")
}
