package effects_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/adopt"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/fakehost"
)

const claimed = "slipway://ns/host-1/claim"

// authority makes a certificate authority, in PEM.
func authority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signed(t, &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, NotAfter: time.Now().Add(time.Hour)}, key)
}

func signed(t *testing.T, template *x509.Certificate, key crypto.Signer) []byte {
	t.Helper()
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// foreignNode is a host on which somebody has run kubeadm join, and the operation to adopt
// it for a machine of the same cluster.
func foreignNode(t *testing.T) (*fakehost.Host, *infrav1.HostSpec) {
	t.Helper()
	h, cluster := fakehost.New(t), authority(t)
	h.Install(t, newVersion)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), Subject: pkix.Name{CommonName: "system:node:host-1"}}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pemFile := slices.Concat(signed(t, template, key), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	for path, content := range map[string]string{
		"/etc/kubernetes/pki/ca.crt": string(cluster), "/var/lib/kubelet/pki/kubelet-client-current.pem": string(pemFile),
		"/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n", "/etc/default/kubelet": "KUBELET_EXTRA_ARGS=--node-ip=10.0.0.5\n",
		"/etc/cni/net.d/10-flannel.conflist": "{}", "/etc/cni/net.d/87-podman-bridge.conflist": "{}",
	} {
		h.Put(t, path, content)
	}
	trusting(t, h, cluster)
	h.Network.AddLink(network.Link{Name: "cni0", Kind: "bridge"})
	h.Network.AddLink(network.Link{Name: "veth12345678", Kind: "veth", Master: "cni0"})
	// What is on an interface of the node goes with it.
	h.Network.Put(network.IPAddresses, "10.244.6.1/24 on cni0", "permanent")
	h.Network.Put(network.Routes, "10.244.6.128/25", `{"dst":"10.244.6.128/25","dev":"cni0"}`)
	h.Network.Put(network.Nexthops, "id 7", `{"dev":"cni0"}`)
	h.Network.Put(network.Neighbours, "10.244.6.9 on cni0", `{"dev":"cni0"}`)
	h.Network.Put(network.Qdiscs, "root of veth12345678", "htb")
	h.Network.Put(network.IPAddresses, "10.0.0.6/24 on eth0", "permanent")
	// What a plugin made on an interface of the host itself is told from the operator's by the cluster's networks.
	h.Node.Config = "kind: ClusterConfiguration\nnetworking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12}\n"
	h.Network.Put(network.Routes, "10.244.1.0/24 via 10.0.0.6 dev eth0", `{"dst":"10.244.1.0/24","gw":"10.0.0.6","dev":"eth0"}`)
	h.Network.Put(network.Routes, "10.244.2.0/24 via 10.0.0.7 dev eth0", `{"dst":"10.244.2.0/24","gw":"10.0.0.7","dev":"eth0"}`)
	h.Network.Put(network.Routes, "10.9.0.0/16 via 10.0.0.9 dev eth0", `{"dst":"10.9.0.0/16","gw":"10.0.0.9","dev":"eth0"}`)
	h.Network.AddTable("ip kube-proxy")
	h.Network.AddTable("inet firewall")
	h.Node.Report(newVersion, h.Clock)
	h.Node.Change(func(n *corev1.Node) { n.Status.NodeInfo.BootID, n.UID = "boot-1", "uid-1" })
	h.Node.AddPod("app", "ReplicaSet")
	spec := hostSpec(infrav1.HostDesiredAdopted, "adopt-claim")
	spec.Desired.BootstrapSecretName, spec.Desired.VirtualIP, spec.Desired.InitializesControlPlane = "", "", nil
	spec.Desired.Version, spec.Desired.ClusterCAs = newVersion, host.HashCAs(cluster)
	return h, spec
}

// trusting writes the kubelet's kubeconfig.
func trusting(t *testing.T, h *fakehost.Host, authorities []byte) {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://10.0.0.1:6443", CertificateAuthorityData: authorities}
	pemFile := h.Root.Path("/var/lib/kubelet/pki/kubelet-client-current.pem")
	c.AuthInfos["a"] = &clientcmdapi.AuthInfo{ClientCertificate: pemFile, ClientKey: pemFile}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "a"}
	c.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*c, h.Root.Path("/etc/kubernetes/kubelet.conf")); err != nil {
		t.Fatal(err)
	}
}

// assertUntouched holds that nothing was started, stopped, removed or evicted.
func assertUntouched(t *testing.T, h *fakehost.Host) {
	t.Helper()
	for _, line := range h.Programs.Ran() {
		if line != "systemctl is-active --quiet kubelet" && !strings.HasPrefix(line, "systemctl show") && !strings.HasSuffix(line, " list --quiet") {
			t.Errorf("%q ran", line)
		}
	}
	if len(h.Node.Evicted) > 0 {
		t.Errorf("evicted are %v", h.Node.Evicted)
	}
	if links := h.Network.Names(network.Interfaces); len(links) != 3 {
		t.Errorf("interfaces are %v", links)
	}
}

func assertAdopted(t *testing.T, h *fakehost.Host, s journal.State) {
	t.Helper()
	if s.Operation.State != infrav1.OperationSucceeded || s.BootstrappedClaimID != "claim" || s.Residue != journal.ResidueCommands || s.ResidueGeneration != 1 || s.CleanProof != nil || s.Found != nil {
		t.Fatalf("operation %+v, journal %+v", s.Operation, s)
	}
	if n := node(t, h); n.Spec.ProviderID != claimed || n.UID != "uid-1" {
		t.Errorf("the Node has the providerID %q and UID %s", n.Spec.ProviderID, n.UID)
	}
	if got := read(t, h, "/etc/default/kubelet"); !strings.Contains(got, "--node-ip=10.0.0.5 --provider-id="+claimed+" --register-node=false") {
		t.Errorf("the arguments of the kubelet are %q", got)
	}
	assertUntouched(t, h)
}

// assertAsBefore holds that a host that was not adopted shows no trace of the try.
func assertAsBefore(t *testing.T, h *fakehost.Host, s journal.State) {
	t.Helper()
	if s.Residue != journal.ResidueNone || s.Baseline != nil || s.BootstrappedClaimID != "" {
		t.Errorf("journal %+v", s)
	}
	if got := read(t, h, "/etc/default/kubelet"); got != "KUBELET_EXTRA_ARGS=--node-ip=10.0.0.5\n" {
		t.Errorf("the arguments of the kubelet are %q", got)
	}
	assertUntouched(t, h)
}

func TestAdoptAndRelease(t *testing.T) {
	h, spec := foreignNode(t)
	// The namespace of a pod's network, and the state of a network plugin, which go with the node.
	h.Put(t, "/proc/self/mountinfo", "100 50 0:4 net:[4026532] /run/netns/cni-f3 rw - nsfs nsfs rw\n101 50 0:4 net:[4026533] /run/netns/vpn rw - nsfs nsfs rw\n"+
		"102 50 0:5 / /run/calico/cgroup rw - cgroup2 none rw\n")
	h.Network.Put(network.NFTables, "table ip filter", "table")
	h.Network.Put(network.NFTables, "chain ip filter cali-INPUT", "chain")
	h.Network.Put(network.NFTables, "rule ip filter cali-INPUT d5", "rule")
	for _, name := range []string{"/run/netns/cni-f3", "/run/netns/vpn", "/run/calico/ready", "/etc/cni/net.d/multus.d/multus.kubeconfig"} {
		h.Put(t, name, "")
	}
	path := filepath.Join(t.TempDir(), "journal")
	s, _ := process(t, h, path, spec, 0)
	assertAdopted(t, h, s)

	// The same claim by another operation, as after a move: nothing is done again.
	again := spec.DeepCopy()
	again.Desired.OperationID = "again"
	if s, _ = process(t, h, path, again, 0); s.Operation.State != infrav1.OperationSucceeded {
		t.Errorf("operation %+v", s.Operation)
	}
	// An agent that lost its journal finds the node adopted.
	damaged := filepath.Join(t.TempDir(), "journal")
	if err := os.WriteFile(damaged, []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ = process(t, h, damaged, spec, 0)
	assertAdopted(t, h, s)
	if s.Lost == nil {
		t.Error("the adoption made up for the journal")
	}

	h.MakeWorker(t)
	s, _ = process(t, h, path, upgradeSpec(newVersion), 0)
	if s.Operation.State != infrav1.OperationSucceeded {
		t.Errorf("an adopted node is not upgraded as others are: %+v", s.Operation)
	}

	// Meanwhile a node left the cluster, and another one came.
	if err := h.Network.RemoveEntries(network.Routes, []string{"10.244.2.0/24 via 10.0.0.7 dev eth0"}); err != nil {
		t.Fatal(err)
	}
	h.Network.AddRoute("10.244.4.0/24 via 10.0.0.8 dev eth0")
	h.Put(t, "/proc/self/mountinfo", "101 50 0:4 net:[4026533] /run/netns/vpn rw - nsfs nsfs rw\n")
	if err := os.Remove(h.Root.Path("/run/netns/cni-f3")); err != nil {
		t.Fatal(err)
	}
	s, _ = process(t, h, path, hostSpec(infrav1.HostDesiredReset, "reset"), 0)
	if s.CleanProof == nil || s.Residue != journal.ResidueNone || s.Operation.State != infrav1.OperationSucceeded {
		t.Fatalf("no proof: operation %+v, journal %+v", s.Operation, s)
	}
	for path, want := range map[string]bool{
		"/etc/kubernetes/kubelet.conf": false, "/etc/cni/net.d/10-flannel.conflist": false, "/etc/cni/net.d/multus.d": false, "/etc/cni/net.d/87-podman-bridge.conflist": true,
		"/run/netns/vpn": true, "/run/calico": false,
	} {
		if _, err := os.Stat(h.Root.Path(path)); (err == nil) != want {
			t.Errorf("%s is there: %t", path, !want)
		}
	}
	if got := read(t, h, "/etc/default/kubelet"); got != "KUBELET_EXTRA_ARGS=--node-ip=10.0.0.5\n" {
		t.Errorf("the arguments of the kubelet are %q", got)
	}
	if routes := h.Network.Names(network.Routes); !slices.Equal(routes, []string{"10.9.0.0/16 via 10.0.0.9 dev eth0"}) {
		t.Errorf("routes %q are left", routes)
	}
	links, tables := h.Network.Names(network.Interfaces), h.Network.Names(network.NFTables)
	if !slices.Equal(links, []string{"eth0"}) || !slices.Equal(tables, []string{"table inet firewall", "table ip filter"}) {
		t.Errorf("interfaces %v and tables %v are left", links, tables)
	}
}

// TestAdoptionRefused holds that whatever speaks against an adoption leaves host and
// Node as they were.
func TestAdoptionRefused(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*testing.T, *fakehost.Host, *infrav1.HostSpec)
		reason string
		part   string
	}{
		"node of another cluster": {func(t *testing.T, h *fakehost.Host, _ *infrav1.HostSpec) { trusting(t, h, authority(t)) },
			operation.ReasonOtherCluster, "Ask by a Machine of the cluster it is in"},
		"operation without a cluster":    {func(_ *testing.T, _ *fakehost.Host, s *infrav1.HostSpec) { s.Desired.ClusterCAs = nil }, operation.ReasonOtherCluster, ""},
		"kubelet that trusts any server": {func(t *testing.T, h *fakehost.Host, _ *infrav1.HostSpec) { trusting(t, h, nil) }, operation.ReasonOtherCluster, ""},
		"API server of another cluster": {func(_ *testing.T, h *fakehost.Host, _ *infrav1.HostSpec) {
			h.Node.Fails = fmt.Errorf("Get: %w", x509.UnknownAuthorityError{})
		}, operation.ReasonOtherCluster, "not of the cluster of the Machine"},
		"control plane": {func(t *testing.T, h *fakehost.Host, _ *infrav1.HostSpec) {
			h.Put(t, "/etc/kubernetes/manifests/kube-apiserver.yaml", "")
		}, operation.ReasonControlPlaneHost, "only workers"},
		"control plane by its label": {func(_ *testing.T, h *fakehost.Host, _ *infrav1.HostSpec) {
			h.Node.Change(func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} })
		}, operation.ReasonControlPlaneHost, "only workers"},
		"another version": {func(_ *testing.T, _ *fakehost.Host, s *infrav1.HostSpec) { s.Desired.Version = oldVersion },
			operation.ReasonVersionMismatch, "Set spec.version of the Machine to " + newVersion},
		"node of another provider": {func(_ *testing.T, h *fakehost.Host, _ *infrav1.HostSpec) {
			h.Node.Change(func(n *corev1.Node) { n.Spec.ProviderID = "aws:///i-1" })
		}, operation.ReasonProviderIDTaken, "aws:///i-1"},
		"node of another machine": {func(_ *testing.T, h *fakehost.Host, _ *infrav1.HostSpec) {
			h.Node.Change(func(n *corev1.Node) { n.Spec.ProviderID = "slipway://ns/host-1/earlier" })
		}, operation.ReasonProviderIDTaken, "kubeadm reset"},
		"only files are left": {func(_ *testing.T, h *fakehost.Host, _ *infrav1.HostSpec) {
			_ = os.Remove(h.Root.Path("/etc/kubernetes/kubelet.conf"))
		}, operation.ReasonNotAWorkerNode, "/etc/kubernetes/kubelet.conf"},
		"no kubeadm": {func(_ *testing.T, h *fakehost.Host, _ *infrav1.HostSpec) {
			_ = os.Remove(h.Root.Path("/var/lib/kubelet/config.yaml"))
		}, operation.ReasonNotAWorkerNode, "/var/lib/kubelet/config.yaml"},
		"Node made anew meanwhile": {func(_ *testing.T, h *fakehost.Host, _ *infrav1.HostSpec) {
			h.Executor.Adopter.Connect = func([]byte) (adopt.Node, error) { return stale{h.Node}, nil }
		}, operation.ReasonProviderIDTaken, "tried 5 times"},
	} {
		t.Run(name, func(t *testing.T) {
			h, spec := foreignNode(t)
			c.before(t, h, spec)
			before, _ := h.Node.Get(t.Context())
			s, _ := process(t, h, filepath.Join(t.TempDir(), "journal"), spec, 0)
			if op := s.Operation; op.State != infrav1.OperationFailed || op.Reason != c.reason || !strings.Contains(op.Message, c.part) {
				t.Fatalf("operation %+v, want %s with %q", op, c.reason, c.part)
			}
			if after, _ := h.Node.Get(t.Context()); after.Spec.ProviderID != before.Spec.ProviderID {
				t.Errorf("the Node has the providerID %q", after.Spec.ProviderID)
			}
			assertAsBefore(t, h, s)
		})
	}
}

// stale reads a Node of the same name that is gone.
type stale struct{ *fakehost.Node }

func (s stale) Get(ctx context.Context) (*corev1.Node, error) {
	n, err := s.Node.Get(ctx)
	n.UID = "gone"
	return n, err
}

// TestAdoptionWaits holds that what passes by itself is no reason to refuse.
func TestAdoptionWaits(t *testing.T) {
	for name, c := range map[string]struct {
		before, mend func(*fakehost.Host)
		reason       string
	}{
		"kubelet that does not run": {func(h *fakehost.Host) { h.Programs.Fail = map[string]int{"systemctl is-active": 3} },
			func(h *fakehost.Host) { h.Programs.Fail = nil }, operation.ReasonKubeletInactive},
		"Node of the last boot": {func(h *fakehost.Host) {
			h.Node.Change(func(n *corev1.Node) { n.Status.NodeInfo.BootID = "boot-0" })
		},
			func(h *fakehost.Host) {
				h.Node.Change(func(n *corev1.Node) { n.Status.NodeInfo.BootID = "boot-1" })
			}, operation.ReasonNodeNotReported},
		"networks that cannot be read": {func(h *fakehost.Host) { h.Node.ConfigFails = errors.New("timed out") },
			func(h *fakehost.Host) { h.Node.ConfigFails = nil }, operation.ReasonNodeUnreachable},
		"API server that is away": {func(h *fakehost.Host) { h.Node.Down = true }, func(h *fakehost.Host) { h.Node.Down = false }, operation.ReasonNodeUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			h, spec := foreignNode(t)
			c.before(h)
			p := newRecord(t)
			err := h.Executor.Adopt(t.Context(), operation.Adoption{ProviderID: claimed, ClusterCAs: spec.Desired.ClusterCAs}, p)
			if e := operation.AsError(err); err == nil || e.Reason != c.reason || e.Retry != operation.RetryLater {
				t.Fatalf("error is %+v, want %s", e, c.reason)
			}
			assertAsBefore(t, h, p.State())
			c.mend(h)
			s, _ := process(t, h, filepath.Join(t.TempDir(), "journal"), spec, 0)
			assertAdopted(t, h, s)
		})
	}
}

// TestKillAdoptionAtEveryRecord ends the agent before each record of an adoption. The
// next life adopts the node all the same, or, when the claim has ended meanwhile,
// leaves the host as it was; the providerID alone, once it is given, stays.
func TestKillAdoptionAtEveryRecord(t *testing.T) {
	t.Parallel()
	for at := range level.Endless() {
		crashed := false
		t.Run(fmt.Sprintf("record %d", at), func(t *testing.T) {
			h, spec := foreignNode(t)
			path := filepath.Join(t.TempDir(), "journal")
			_, crashed = process(t, h, path, spec, at)
			s, _ := process(t, h, path, spec, 0)
			assertAdopted(t, h, s)
		})
		t.Run(fmt.Sprintf("record %d, withdrawn", at), func(t *testing.T) {
			h, spec := foreignNode(t)
			path := filepath.Join(t.TempDir(), "journal")
			if s, crashed := process(t, h, path, spec, at); !crashed {
				assertAdopted(t, h, s)
				return
			}
			free := &infrav1.HostSpec{ClaimGeneration: 1, Desired: spec.Desired}
			s, _ := process(t, h, path, free, 0)
			if s.Operation.State != infrav1.OperationFailed || s.Operation.Reason != operation.ReasonWithdrawn {
				t.Errorf("operation %+v", s.Operation)
			}
			assertAsBefore(t, h, s)
		})
		if !crashed || t.Failed() {
			break
		}
	}
}
