package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/test/live"
)

// adopter is what an operator writes to have the node on a host adopted, as
// docs/hosts.md tells it.
var adopter = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: adopted, namespace: default}
spec:
  clusterName: local
  version: ` + current + `
  bootstrap: {dataSecretName: ""}
  infrastructureRef: {apiGroup: infrastructure.slipway.dev, kind: HostMachine, name: adopted}
---
apiVersion: infrastructure.slipway.dev/v1beta2
kind: HostMachine
metadata: {name: adopted, namespace: default}
spec:
  adopt: {hostName: HOST}
`

// adoption joins the spare host by hand, with no agent on it, and has the node adopted:
// nothing on it notices. Then it is released as any other.
func adoption(t *testing.T, p *plane) {
	controlPlane, worker := "", ""
	for _, h := range p.status().Hosts {
		switch {
		case h.ClaimedBy == "":
			worker = h.Name
		case !strings.HasPrefix(h.ClaimedBy, "local/local-pool"):
			controlPlane = h.Name
		}
	}
	joinByHand(p, controlPlane, worker)
	// no two of its pods share a node
	p.mustKubectl("local", "scale", "deployment/echo", "--replicas=3")
	p.eventually("the workload runs on the worker", func(status) string {
		if !strings.Contains(podsOn(p, worker), "/echo-") {
			return "no pod of it on the Node"
		}
		return ""
	})

	p.on(worker, "systemctl", "start", "slipway-agent")
	p.eventually("the agent found the node", func(status) string {
		return differs("Quarantined AdoptionRefused", p.mustKubectl("", "get", "host", worker, "-o",
			`jsonpath={.status.phase} {.status.conditions[?(@.type=="Ready")].reason}`))
	})
	p.eventually("every pod runs", func(status) string { return allRun(podsOn(p, worker)) })
	node, pods := nodeOf(p, worker), podsOn(p, worker)
	kubelet := p.on(worker, "cat", "/var/lib/kubelet/kubeadm-flags.env")

	refusedToAnother(p, worker)
	assertUnmoved(p, worker, node, pods)
	p.apply("", strings.ReplaceAll(adopter, "HOST", worker))
	p.eventually("adopted", func(status) string {
		return differs("Running "+worker+" Running", p.mustKubectl("", "get", "machine", "adopted", "-o", "jsonpath={.status.phase} {.status.nodeRef.name}")+
			" "+p.mustKubectl("", "get", "host", worker, "-o", "jsonpath={.status.phase}"))
	})
	assertSameNode(p, worker, node, pods)
	if now := p.on(worker, "cat", "/var/lib/kubelet/kubeadm-flags.env"); now != kubelet {
		t.Errorf("kubeadm's flags were %q and are %q", kubelet, now)
	}

	kubeletRestarted(p, worker)
	assertSameNode(p, worker, node, pods)
	released(p, worker)
}

// kubeletRestarted restarts the kubelet, which reads the arguments of the adoption then.
func kubeletRestarted(p *plane, worker string) {
	p.t.Helper()
	// The API keeps whole seconds.
	restarted := time.Now().Truncate(time.Second)
	p.on(worker, "systemctl", "restart", "kubelet")
	p.eventually("the kubelet reports after its restart", all(nodeReady(worker, true), func(status) string {
		beat := p.mustKubectl("local", "get", "node", worker, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].lastHeartbeatTime}`)
		if at, err := time.Parse(time.RFC3339, beat); err != nil || at.Before(restarted) {
			return fmt.Sprintf("restarted at %s, last report at %q (%v)", restarted.UTC().Format(time.RFC3339), beat, err)
		}
		return ""
	}))
	if arguments := p.on(worker, "sh", "-c", "tr '\\0' ' ' </proc/$(pidof kubelet)/cmdline"); !strings.Contains(arguments, "--provider-id=slipway://default/"+worker) ||
		!strings.Contains(arguments, "--register-node=false") {
		p.t.Errorf("the kubelet runs as %q", arguments)
	}
}

// joinByHand makes a host a node as an operator does who never heard of Cluster API.
func joinByHand(p *plane, controlPlane, worker string) {
	p.t.Helper()
	p.on(worker, "systemctl", "stop", "slipway-agent")
	join := strings.Fields(p.on(controlPlane, "kubeadm", "token", "create", "--print-join-command", "--kubeconfig", "/etc/kubernetes/admin.conf"))
	if len(join) < 3 || join[0] != "kubeadm" {
		p.t.Fatalf("kubeadm printed %q", join)
	}
	p.on(worker, append(join, "--cri-socket", "unix:///run/containerd/containerd.sock", "--ignore-preflight-errors", "all")...)
	p.eventually("joined by hand", nodeReady(worker, true))
}

// on runs a command on a local host and returns what it prints.
func (p *plane) on(host string, command ...string) string {
	p.t.Helper()
	return p.must(append([]string{"host", "shell", host, "--"}, command...)...)
}

// podsOn are the pods of a Node, one a line: what tells that one of them was started anew.
func podsOn(p *plane, node string) string {
	p.t.Helper()
	return p.mustKubectl("local", "get", "pods", "-A", "--field-selector", "spec.nodeName="+node, "--sort-by", ".metadata.uid", "-o",
		`jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.metadata.uid} {.status.phase} {range .status.containerStatuses[*]}{.containerID} {.restartCount} {.ready} {end}{"\n"}{end}`)
}

func allRun(pods string) string {
	for _, pod := range strings.Split(strings.TrimSpace(pods), "\n") {
		if !strings.Contains(pod, " Running ") || strings.Contains(pod, " false ") {
			return pod
		}
	}
	return ""
}

// nodeOf is the identity of a Node.
func nodeOf(p *plane, name string) string {
	p.t.Helper()
	return p.mustKubectl("local", "get", "node", name, "-o", "jsonpath={.metadata.uid} {.status.nodeInfo.bootID}")
}

// otherCluster is one whose API servers the host never met.
var otherCluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: other, namespace: default}
spec:
  infrastructureRef: {apiGroup: infrastructure.slipway.dev, kind: HostCluster, name: other}
---
apiVersion: infrastructure.slipway.dev/v1beta2
kind: HostCluster
metadata: {name: other, namespace: default}
spec:
  endpoint: {type: External}
  controlPlaneEndpoint: {host: 10.88.0.250, port: 6443}
---
`

// refusedToAnother asks for the node by a Machine of another cluster.
func refusedToAnother(p *plane, worker string) {
	p.t.Helper()
	kubeconfig := strings.TrimSpace(p.must("kubeconfig"))
	p.mustKubectl("", "create", "secret", "generic", "other-kubeconfig", "--from-file=value="+kubeconfig)
	p.apply("", otherCluster+strings.NewReplacer("HOST", worker, "name: adopted", "name: stray", "clusterName: local", "clusterName: other").Replace(adopter))
	p.eventually("refused to a Machine of another cluster", func(status) string {
		told := p.mustKubectl("", "get", "hostmachine", "stray", "-o", `jsonpath={.status.conditions[?(@.type=="HostClaimed")].message}`)
		if !strings.Contains(told, "this host is a node of another cluster") {
			return fmt.Sprintf("the machine says %q", told)
		}
		return differs("Quarantined ", p.mustKubectl("", "get", "host", worker, "-o", "jsonpath={.status.phase} {.spec.claim.machineName}"))
	})
	p.mustKubectl("", "delete", "machine", "stray", live.Waits())
	p.mustKubectl("", "delete", "cluster", "other", live.Waits())
	if id := p.mustKubectl("local", "get", "node", worker, "-o", "jsonpath={.spec.providerID}"); id != "" {
		p.t.Errorf("the Node has the providerID %q", id)
	}
}

// assertSameNode holds that Node and pods are those from before, and that they are the
// Machine's now.
func assertSameNode(p *plane, worker, node, pods string) {
	p.t.Helper()
	assertUnmoved(p, worker, node, pods)
	id := p.mustKubectl("local", "get", "node", worker, "-o", "jsonpath={.spec.providerID}")
	if machine := p.mustKubectl("", "get", "machine", "adopted", "-o", "jsonpath={.spec.providerID}"); id != machine || !strings.HasPrefix(id, "slipway://default/"+worker+"/") {
		p.t.Errorf("the Node has the providerID %q, its Machine %q", id, machine)
	}
}

// assertUnmoved holds that nothing of the node was started anew.
func assertUnmoved(p *plane, worker, node, pods string) {
	p.t.Helper()
	if now := nodeOf(p, worker); now != node {
		p.t.Errorf("the Node was %s and is %s", node, now)
	}
	if now := podsOn(p, worker); now != pods {
		p.t.Errorf("the pods were\n%sand are\n%s", pods, now)
	}
}

// released deletes the Machine: the node is drained, and the host is clean.
func released(p *plane, worker string) {
	p.t.Helper()
	p.mustKubectl("", "delete", "machine", "adopted", live.Waits())
	p.eventually("drained, reset and available", all(withoutNode(worker), func(status) string {
		return differs("Available ", p.mustKubectl("", "get", "host", worker, "-o", "jsonpath={.status.phase} {.spec.claim.machineName}"))
	}))
	if drained := p.mustKubectl("", "get", "events", "--field-selector", "involvedObject.name=adopted,reason=SuccessfulDrainNode", "-o", "name"); drained == "" {
		p.t.Errorf("core did not drain the node:\n%s", p.mustKubectl("", "get", "events", "--field-selector", "involvedObject.name=adopted"))
	}
	if left := p.on(worker, "sh", "-c", "ls /etc/cni/net.d /etc/kubernetes 2>/dev/null; pidof kubelet || true"); strings.Contains(left, ".conf") {
		p.t.Errorf("left on the host: %q", left)
	}
}
