package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/live"
)

// hostOf returns which host of the cluster, or which free one, is broken.
func hostOf(match func(claimedBy string) bool) func(*ways) string {
	return func(w *ways) string {
		w.t.Helper()
		for _, h := range w.status().Hosts {
			if match(h.ClaimedBy) && (h.Phase == "Running" || h.Phase == "Available") {
				return h.Name
			}
		}
		w.t.Fatalf("no such host in %+v", w.status().Hosts)
		return ""
	}
}

var (
	worker       = hostOf(func(by string) bool { return strings.HasPrefix(by, "local/local-md") })
	free         = hostOf(func(by string) bool { return by == "" })
	controlPlane = hostOf(func(by string) bool { return by != "" && !strings.HasPrefix(by, "local/local-md") })
)

// running runs a script on the host that is broken.
func running(script string) func(*ways, string) {
	return func(w *ways, host string) { w.on(host, "sh", "-ec", script) }
}

// slipway runs a command of slipway; a % stands for the object.
func slipway(args ...string) func(*ways, string) {
	return func(w *ways, name string) {
		args := append([]string{}, args...)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "%", name)
		}
		w.must(args...)
	}
}

// kubectl runs kubectl against the plane; a % stands for the object.
func kubectl(args ...string) func(*ways, string) {
	return func(w *ways, name string) {
		w.mustKubectl("", strings.Fields(strings.ReplaceAll(strings.Join(args, " "), "%", name))...)
	}
}

// onWorker runs a script on a worker, the same one in all of a way: the object is that of the whole cluster.
func onWorker(script string) func(*ways, string) {
	return func(w *ways, _ string) {
		if w.host == "" {
			w.host = worker(w)
		}
		w.on(w.host, "sh", "-ec", script)
	}
}

func onControlPlane(script string) func(*ways, string) {
	return func(w *ways, _ string) { w.on(controlPlane(w), "sh", "-ec", script) }
}

func applied(manifest string) func(*ways, string) {
	return func(w *ways, _ string) { w.apply("", manifest) }
}

// local is the cluster.
func local(*ways) string { return "local" }

// machineOf has the object be the Machine of a host.
func machineOf(w *ways, host string) string {
	return w.mustKubectl("", "get", "hostmachine", hostMachineOf(w.plane, host), "-o", `jsonpath={.metadata.ownerReferences[?(@.kind=="Machine")].name}`)
}

// settled waits until the cluster has its three ready nodes, and all other hosts are free.
func settled(w *ways) {
	w.t.Helper()
	w.eventually("three ready nodes", all(readyNodes(3), func(s status) string {
		for _, h := range s.Hosts {
			if h.Phase != "Running" && h.Phase != "Available" {
				return fmt.Sprintf("%s is %s", h.Name, h.Phase)
			}
		}
		return ""
	}))
}

// hang stops the process of a unit without its end.
func hang(unit string) func(*ways, string) {
	return running("kill -STOP $(systemctl show --property=MainPID --value " + unit + ")")
}

// theWays are sorted so that each finds what it needs.
var theWays = []way{
	{name: "the kubelet of a worker is stopped", kind: "Host", of: worker, check: "ServiceDown", breaks: running("systemctl stop kubelet"), command: "systemctl restart kubelet"},
	{name: "containerd of a worker is stopped", kind: "Host", of: worker, check: "ServiceDown", breaks: running("systemctl stop containerd"), command: "systemctl restart containerd"},
	{name: "the kubelet of the control plane is stopped", kind: "Host", of: controlPlane, check: "ServiceDown", breaks: running("systemctl stop kubelet"), command: "systemctl restart kubelet"},
	{
		name: "the configuration of a kubelet is damaged", kind: "Host", of: worker, check: "ServiceDown",
		breaks:  running("cp /var/lib/kubelet/config.yaml /root/config.yaml; echo '{' >/var/lib/kubelet/config.yaml; systemctl restart kubelet || true"),
		first:   running("cp /root/config.yaml /var/lib/kubelet/config.yaml"),
		command: "systemctl restart kubelet",
	},
	{name: "the kubelet of a worker hangs", kind: "Host", of: worker, check: "NodeUnwell", breaks: hang("kubelet"), command: "systemctl restart kubelet"},
	{name: "the agent of a worker is stopped", kind: "Host", of: worker, check: "HostDisconnected", breaks: running("systemctl stop slipway-agent"), command: "systemctl restart slipway-agent"},
	{name: "the agent of a free host is stopped", kind: "Host", of: free, check: "HostDisconnected", breaks: running("systemctl stop slipway-agent"), command: "systemctl restart slipway-agent"},
	{name: "the agent of the control plane is stopped", kind: "Host", of: controlPlane, check: "HostDisconnected", breaks: running("systemctl stop slipway-agent"), command: "systemctl restart slipway-agent"},
	{name: "an agent hangs", kind: "Host", of: free, check: "HostDisconnected", breaks: hang("slipway-agent"), command: "systemctl restart slipway-agent"},
	{
		name: "the configuration of an agent is damaged", kind: "Host", of: free, check: "HostDisconnected",
		breaks:  running("cp /etc/slipway/agent.yaml /root/agent.yaml; echo '{' >/etc/slipway/agent.yaml; systemctl restart slipway-agent || true"),
		first:   running("cp /root/agent.yaml /etc/slipway/agent.yaml"),
		command: "systemctl restart slipway-agent",
	},
	{
		name: "an entry of an agent's configuration is wrong", kind: "Host", of: free, check: "ConfigurationNotAccepted",
		breaks:  running("cp /etc/slipway/agent.yaml /root/agent.yaml; printf 'clean:\n  ignore: [{kind: nonsense, name: a, reason: b}]\n' >>/etc/slipway/agent.yaml; systemctl restart slipway-agent"),
		first:   running("cp /root/agent.yaml /etc/slipway/agent.yaml"),
		command: "systemctl restart slipway-agent",
	},
	{name: "a host is cut off from the network", kind: "Host", of: worker, check: "HostDisconnected", breaks: slipway("host", "cut", "%"), first: slipway("host", "heal", "%"), command: "systemctl restart slipway-agent"},
	{name: "a host loses its power", kind: "Host", of: worker, check: "HostDisconnected", breaks: slipway("host", "power-off", "%"), first: slipway("host", "power-on", "%"), command: "systemctl restart slipway-agent"},
	{
		name: "a host is renamed", kind: "Host", of: worker, check: "NodeIdentityChanged",
		breaks: running("printf '#!/bin/sh\\n[ \"$1\" = set-hostname ] && exec hostname \"$2\"\\n' >/run/hostnamectl; chmod 755 /run/hostnamectl; mount --bind /run/hostnamectl /usr/bin/hostnamectl; hostname \"$(hostname).lan.example\""), command: "hostnamectl set-hostname ",
		// What was written to and written back is not what it was: the next reset would name it.
		after: running("umount /usr/bin/hostnamectl; rm /run/hostnamectl"),
	},
	{
		name: "a clock is off", kind: "Host", of: free, check: "ClockSkewed",
		breaks: skewed, first: func(w *ways, host string) { close(w.quit); w.on(host, "systemctl", "start", "slipway-agent") },
	},
	{name: "a disk is full", kind: "Host", of: free, check: "LowDisk", breaks: running("mkdir -p /var/lib/kubelet; mount -t tmpfs -o size=16m tmpfs /var/lib/kubelet"), first: running("umount /var/lib/kubelet"), command: "du "},
	{
		name: "the journal of an agent is lost", kind: "Host", of: free, check: "RecordLost",
		breaks:  running("systemctl stop slipway-agent; : >/var/lib/slipway-agent/journal; systemctl start slipway-agent"),
		command: "slipway host clear-quarantine ",
	},
	{name: "a free host is paused", kind: "Host", of: free, check: "Paused", breaks: kubectl("annotate host % cluster.x-k8s.io/paused="), command: "kubectl annotate host"},
	{name: "a host in use is paused", kind: "Host", of: worker, check: "Paused", breaks: kubectl("annotate host % cluster.x-k8s.io/paused="), command: "kubectl annotate host"},
	{
		name: "a machine is paused", kind: "Host", of: worker, check: "Paused",
		breaks: func(w *ways, host string) {
			w.mustKubectl("", "annotate", "machine", machineOf(w, host), "cluster.x-k8s.io/paused=")
		}, command: "kubectl annotate machine",
	},
	{name: "a cluster is paused", kind: "Cluster", of: local, check: "Paused", breaks: kubectl(`patch cluster % --type=merge -p {"spec":{"paused":true}}`), command: "kubectl patch cluster"},
	{name: "a host is kept back", kind: "Host", of: free, check: "HostKeptBack", breaks: slipway("host", "cordon", "%"), command: "slipway host uncordon "},
	{name: "a cluster has no health check", kind: "Cluster", of: local, word: "Available", check: "NoHealthCheck", command: "echo "},
	{
		name: "the network plugin of a Node is gone", kind: "Cluster", of: local, check: "NoNetworkPlugin",
		breaks: onWorker("mkdir -p /root/cni; mv /etc/cni/net.d/* /root/cni/"), first: onWorker("mv /root/cni/* /etc/cni/net.d/"), command: "kubectl --kubeconfig ",
	},
	{
		name: "the certificate of a kubelet ends", kind: "Host", of: worker, check: "KubeletCertificateExpires",
		breaks: func(w *ways, host string) {
			w.on(host, "sh", "-ec", "cd /var/lib/kubelet/pki; mv kubelet-client-current.pem /root/; echo '"+endedCertificate(w.t)+"' >kubelet-client-current.pem")
		},
		first:   running("mv /root/kubelet-client-current.pem /var/lib/kubelet/pki/"),
		command: "systemctl restart kubelet",
	},
	{
		name: "a host does not reach the endpoint of its cluster", kind: "Host", of: worker, check: "EndpointUnreachable",
		breaks: running("ip route add blackhole " + virtualIP), first: running("ip route del blackhole " + virtualIP), command: "ip route get ",
	},
	{
		name: "the API server of a cluster is gone", kind: "Cluster", of: local, check: "AddressNotHeld",
		breaks: onControlPlane("mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/"), first: onControlPlane("mv /root/kube-apiserver.yaml /etc/kubernetes/manifests/"),
	},
	{
		name: "another machine has the endpoint's address", kind: "Cluster", of: local, check: "AddressContested",
		breaks: func(w *ways, _ string) { w.host = free(w); w.on(w.host, "sh", "-ec", addressOf("add", virtualIP)) },
		first:  func(w *ways, _ string) { w.on(w.host, "sh", "-ec", addressOf("del", virtualIP)) },
	},
	{
		name: "the endpoint of a new cluster is the address of a host", kind: "Cluster", of: func(*ways) string { return "refused" }, check: "EndpointRefused",
		breaks: func(w *ways, _ string) {
			addresses := strings.Fields(w.mustKubectl("", "get", "host", free(w), "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`))
			w.apply("", strings.NewReplacer("name: local", "name: refused", virtualIP, addresses[0]).Replace(clusterOf(current, "machineDeployments: [{class: default-worker, name: md, replicas: 0}]")))
		},
		command: "kubectl delete cluster",
	},
	{
		name: "no host is left for a machine", kind: "HostMachine", check: "NoHostForMachine",
		breaks: func(w *ways, _ string) {
			for _, h := range w.status().Hosts {
				if h.ClaimedBy == "" {
					w.must("host", "cordon", h.Name)
				}
			}
			w.must("cluster", "scale", "local", "--pool", "md=3")
		},
		command: "slipway status --explain",
		after: func(w *ways, _ string) {
			w.must("cluster", "scale", "local", "--pool", "md=2")
			for _, h := range w.status().Hosts {
				w.must("host", "uncordon", h.Name)
			}
		},
	},
	{
		name: "a HostMachine is created by hand", kind: "HostMachine", check: "HostMachineUnowned",
		breaks:  applied("{apiVersion: infrastructure.slipway.dev/v1beta2, kind: HostMachine, metadata: {name: by-hand, namespace: default, labels: {cluster.x-k8s.io/cluster-name: local}}, spec: {}}"),
		command: "kubectl delete hostmachine",
	},
	{
		name: "a policy names what does not exist", kind: "LifecyclePolicy", check: "PolicyNotReady",
		breaks:  applied(fmt.Sprintf(policyOf, "missing", "AfterControlPlaneInitialized", "{name: network, apply: {sources: [{kind: ConfigMap, name: missing}]}}")),
		command: "kubectl describe ", after: kubectl("delete lifecyclepolicy missing"),
	},
	{
		name: "a runtime extension does not answer", kind: "ExtensionConfig", check: "ExtensionNotDiscovered",
		breaks: func(w *ways, _ string) {
			w.apply("", extensionConfig("silent", "https://127.0.0.1:1", []byte(endedCertificate(w.t)), ""))
		},
		command: "kubectl describe ", after: kubectl("delete extensionconfig silent"),
	},
	{
		// It is found in the last quarter of its life, and the plane deletes it at its end.
		name: "a token expires soon", kind: "Secret", check: "TokenExpires",
		breaks: func(w *ways, _ string) {
			w.apply("", fmt.Sprintf(`{apiVersion: v1, kind: Secret, type: bootstrap.kubernetes.io/token, metadata: {name: bootstrap-token-expire, namespace: kube-system}, stringData: {token-id: expire, token-secret: 0123456789abcdef,
  usage-bootstrap-authentication: "true", auth-extra-groups: "system:bootstrappers:slipway,system:bootstrappers:slipway:default", expiration: %q}}`, time.Now().Add(2*time.Minute).UTC().Format(time.RFC3339)))
		},
		command: "slipway host token",
	},
	{
		name: "a budget blocks a drain", kind: "Host", word: "Deleting", check: "DeletionStuck",
		of: func(w *ways) string {
			w.apply("local", live.Workload)
			w.mustKubectl("local", "rollout", "status", "deployment/echo", live.Waits())
			w.apply("local", "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: echo, namespace: default}, spec: {maxUnavailable: 0, selector: {matchLabels: {app: echo}}}}")
			return worker(w)
		},
		breaks:  func(w *ways, host string) { w.mustKubectl("", "delete", "machine", machineOf(w, host), "--wait=false") },
		command: "kubectl --kubeconfig ",
		after: func(w *ways, _ string) {
			w.mustKubectl("local", "delete", "pdb/echo", "deployment/echo")
		},
	},
	{
		name: "the certificates of the control plane end soon", kind: "Host", of: controlPlane, check: "CertificateExpires",
		breaks: func(w *ways, host string) {
			w.mustKubectl("", "annotate", "machine", machineOf(w, host), "machine.cluster.x-k8s.io/certificates-expiry="+time.Now().AddDate(0, 0, 9).UTC().Format(time.RFC3339))
		},
		command: "kubectl patch kubeadmcontrolplane ",
	},
	{name: "the supervisor of the plane is killed", kind: "Plane", check: "PlaneUnsupervised", breaks: unsupervised, command: "slipway up"},
	{name: "the plane is down", kind: "Plane", check: "PlaneNotReady", breaks: slipway("down"), command: "slipway up"},
	{
		name: "a policy waits for an approval", kind: "Cluster", of: local, check: "LifecycleHookWaits",
		breaks: func(w *ways, name string) {
			w.apply("", fmt.Sprintf(policyOf, "delete", "BeforeClusterDelete", "{name: go, approval: {}}"))
			w.mustKubectl("", "wait", "--for=condition=Ready", "lifecyclepolicy/delete", live.Waits())
			w.must("cluster", "delete", name, "--yes")
		},
		command: "slipway approve ",
	},
}

// policyOf is a policy of one step for all clusters.
const policyOf = "{apiVersion: lifecycle.slipway.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: %s, namespace: default}, spec: {hooks: [{hook: %s, steps: [%s]}]}}"

// endedCertificate is one that is to end within the hour, and lasted a month.
func endedCertificate(t *testing.T) string {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().AddDate(0, -1, 0), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// addressOf adds an address to the interface of the plane's network, or takes it off.
func addressOf(do, address string) string {
	return "ip addr " + do + " " + address + "/32 dev $(ip -o route get 10.88.0.1 | sed 's/.* dev \\([^ ]*\\).*/\\1/')"
}

// unsupervised kills the supervisor of the plane.
func unsupervised(w *ways, _ string) {
	w.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.status().Plane.PID))
	if err != nil {
		w.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	parent, err := strconv.Atoi(strings.Fields(rest)[1])
	if err == nil {
		err = syscall.Kill(parent, syscall.SIGKILL)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	poll.Until(w.t, "the supervisor is gone", func() error {
		if err := syscall.Kill(parent, 0); err == nil {
			return fmt.Errorf("process %d is there", parent)
		}
		return nil
	})
}

// skewed beats the heart of a host with a clock two minutes ahead: local hosts have that of the machine.
func skewed(w *ways, host string) {
	w.on(host, "systemctl", "stop", "slipway-agent")
	w.quit = make(chan struct{})
	go func() {
		beat := time.NewTicker(2 * time.Second)
		defer beat.Stop()
		for {
			select {
			case <-w.quit:
				return
			case <-w.t.Context().Done():
				return
			case <-beat.C:
			}
			_, _ = w.kubectl("", "patch", "lease", host, "--type", "merge", "-p", fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().Add(2*time.Minute).UTC().Format("2006-01-02T15:04:05.000000Z07:00")))
		}
	}()
}
