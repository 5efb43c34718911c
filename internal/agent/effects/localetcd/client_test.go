package localetcd_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/keyutil"

	"github.com/slipway-dev/slipway/internal/agent/effects/localetcd"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
)

// A real member, with the certificates that kubeadm gives one, answers all that an upgrade
// asks, and a snapshot is a database of its.
func TestMember(t *testing.T) {
	client, endpoint, _ := member(t)
	poll.Until(t, "etcd is healthy", func() error { return client.Healthy(t.Context()) })
	members, err := client.Members(t.Context())
	if err != nil || len(members) != 1 || members[0].Learner || members[0].Name != "host-1" || !slices.Equal(members[0].ClientURLs, []string{endpoint}) {
		t.Errorf("members %+v: %v", members, err)
	}
	if err := client.Healthy(t.Context(), "https://127.0.0.1:1", endpoint+"/"); err != nil {
		t.Errorf("by its own URL: %v", err)
	}
	if err := client.Healthy(t.Context(), "https://127.0.0.1:1"); err == nil {
		t.Error("a member that does not answer is healthy")
	}
	version, err := client.Version(t.Context())
	if err != nil || !strings.HasPrefix(version, "3.") {
		t.Errorf("version %q: %v", version, err)
	}
	size, err := client.Size(t.Context())
	if err != nil || size <= 0 {
		t.Errorf("size %d: %v", size, err)
	}
	var snapshot bytes.Buffer
	if n, err := client.Snapshot(t.Context(), &snapshot); err != nil || n != int64(snapshot.Len()) || n < size {
		t.Errorf("snapshot of %d bytes, written %d, of a database of %d: %v", n, snapshot.Len(), size, err)
	}
	// bbolt's magic number, in its first page.
	if !bytes.Contains(snapshot.Bytes()[:64], []byte{0xed, 0xda, 0x0c, 0xed}) {
		t.Errorf("the snapshot begins with %x", snapshot.Bytes()[:64])
	}
	if _, err := client.Snapshot(t.Context(), full{}); err == nil {
		t.Error("a full disk is no failure")
	}
}

// A server of another authority is not talked to.
func TestForeignServer(t *testing.T) {
	_, endpoint, manifest := member(t)
	other, _, _ := member(t)
	if err := other.Healthy(t.Context(), endpoint); err == nil {
		t.Errorf("%s is of another authority, and was believed", endpoint)
	}
	manifest.Spec.Containers[0].Command = nil
	if _, err := localetcd.Connect(manifest, func(p string) string { return p }); err == nil {
		t.Error("a manifest without flags")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, fmt.Errorf("no space left on device") }

// TestLeave: of two members none has a majority alone, so none can leave while the other is away.
func TestLeave(t *testing.T) {
	dir := t.TempDir()
	certificates(t, dir)
	first, second := newEtcd(t, dir, "host-1"), newEtcd(t, dir, "host-2")
	second.at("127.0.0.2", first)
	first.start()
	client := first.client()
	poll.Until(t, "etcd is healthy", func() error { return client.Healthy(t.Context()) })
	if err := client.Leave(t.Context()); err != nil {
		t.Errorf("the only member: %v", err)
	}
	second.cluster, second.state = first.cluster+","+second.cluster, "existing"
	joins := second.client()
	if err := joins.Leave(t.Context()); err != nil {
		t.Errorf("a member that was never added: %v", err)
	}
	poll.Until(t, "the second member is added", func() error { return client.Add(t.Context(), second.peer) })
	stop := second.start()
	poll.Until(t, "it serves", func() error { return joins.Healthy(t.Context()) })
	stop()
	if err := joins.Leave(t.Context()); err == nil {
		t.Error("the first one has half of the votes, and removed the second")
	}
	second.start()
	poll.Until(t, "it leaves", func() error { return joins.Leave(t.Context()) })
	members, err := client.Members(t.Context())
	if err != nil || len(members) != 1 || members[0].Name != "host-1" {
		t.Errorf("members %+v: %v", members, err)
	}
	// Until the other one leads alone, both may be without a leader.
	poll.Until(t, "it has nothing to leave", func() error { return joins.Leave(t.Context()) })
}

// member runs an etcd, and returns a client of its, its URL and its manifest.
func member(t *testing.T) (*localetcd.Client, string, *corev1.Pod) {
	t.Helper()
	dir := t.TempDir()
	certificates(t, dir)
	e := newEtcd(t, dir, "host-1")
	e.start()
	return e.client(), e.endpoint, e.manifest()
}

// etcd is a member whose certificates are in dir.
type etcd struct {
	t                                              *testing.T
	dir, name, endpoint, peer, cluster, state, bin string
	ports                                          []int
}

func newEtcd(t *testing.T, dir, name string) *etcd {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		rights.Skip(t, "KUBEBUILDER_ASSETS is not set; make envtest builds them into bin/envtest")
	}
	free, err := shared.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	e := &etcd{t: t, dir: dir, name: name, state: "new", bin: filepath.Join(assets, "etcd"), ports: free}
	e.at("127.0.0.1", e)
	return e
}

// at gives the member an address, and the ports of another one, as members on hosts have.
func (e *etcd) at(address string, other *etcd) {
	at := func(port int) string { return "https://" + net.JoinHostPort(address, strconv.Itoa(port)) }
	e.endpoint, e.peer = at(other.ports[0]), at(other.ports[1])
	e.cluster = e.name + "=" + e.peer
}

// manifest has the flags that kubeadm gives a member.
func (e *etcd) manifest() *corev1.Pod {
	at := func(name string) string { return filepath.Join(e.dir, name) }
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Command: []string{
		"etcd", "--name=" + e.name, "--listen-client-urls=" + e.endpoint, "--advertise-client-urls=" + e.endpoint,
		"--listen-peer-urls=" + e.peer, "--initial-advertise-peer-urls=" + e.peer, "--initial-cluster=" + e.cluster, "--initial-cluster-state=" + e.state,
		"--data-dir=" + at(e.name),
		"--cert-file=" + at("server.crt"), "--key-file=" + at("server.key"), "--trusted-ca-file=" + at("ca.crt"), "--client-cert-auth=true",
		"--peer-cert-file=" + at("server.crt"), "--peer-key-file=" + at("server.key"), "--peer-trusted-ca-file=" + at("ca.crt"), "--peer-client-cert-auth=true",
	}}}}}
}

// start runs the member until stop, or the end of the test.
func (e *etcd) start() (stop func()) {
	e.t.Helper()
	process := exec.CommandContext(e.t.Context(), e.bin, e.manifest().Spec.Containers[0].Command[1:]...)
	if err := process.Start(); err != nil {
		e.t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { _, _ = process.Process.Kill(), process.Wait() })
	e.t.Cleanup(stop)
	return stop
}

func (e *etcd) client() *localetcd.Client {
	e.t.Helper()
	client, err := localetcd.Connect(e.manifest(), func(p string) string { return p })
	if err != nil {
		e.t.Fatal(err)
	}
	return client
}

// certificates are named as kubeadm names them.
func certificates(t *testing.T, dir string) {
	t.Helper()
	template := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)}, BasicConstraintsValid: true,
		}
	}
	authority := template("etcd-ca")
	authority.IsCA = true
	signer := write(t, filepath.Join(dir, "ca"), authority, authority, nil)
	write(t, filepath.Join(dir, "server"), template("host-1"), authority, signer)
	write(t, filepath.Join(dir, "healthcheck-client"), template("kube-etcd-healthcheck-client"), authority, signer)
}

// write signs a certificate, by itself without a signer, and returns its key.
func write(t *testing.T, stem string, of, by *x509.Certificate, signer *ecdsa.PrivateKey) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, of, by, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{stem + ".crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), stem + ".key": private} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return key
}
