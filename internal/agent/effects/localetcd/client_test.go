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
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/keyutil"

	"github.com/slipway-dev/slipway/internal/agent/effects/localetcd"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/ports"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
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

// member runs an etcd, and returns a client of its, its URL and its manifest.
func member(t *testing.T) (*localetcd.Client, string, *corev1.Pod) {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		rights.Skip(t, "KUBEBUILDER_ASSETS is not set; make envtest builds them into bin/envtest")
	}
	dir := t.TempDir()
	certificates(t, dir)
	free, err := ports.Find(2)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, peer := fmt.Sprintf("https://127.0.0.1:%d", free[0]), fmt.Sprintf("https://127.0.0.1:%d", free[1])
	at := func(name string) string { return filepath.Join(dir, name) }
	command := []string{
		"etcd", "--name=host-1", "--listen-client-urls=" + endpoint, "--advertise-client-urls=" + endpoint,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=host-1=" + peer, "--data-dir=" + at("data"),
		"--cert-file=" + at("server.crt"), "--key-file=" + at("server.key"), "--trusted-ca-file=" + at("ca.crt"), "--client-cert-auth=true",
		"--peer-cert-file=" + at("server.crt"), "--peer-key-file=" + at("server.key"), "--peer-trusted-ca-file=" + at("ca.crt"), "--peer-client-cert-auth=true",
	}
	process := exec.CommandContext(t.Context(), filepath.Join(assets, "etcd"), command[1:]...)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Wait() })
	manifest := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Command: command}}}}
	client, err := localetcd.Connect(manifest, func(p string) string { return p })
	if err != nil {
		t.Fatal(err)
	}
	return client, endpoint, manifest
}

// certificates are named as kubeadm names them.
func certificates(t *testing.T, dir string) {
	t.Helper()
	template := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true,
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
