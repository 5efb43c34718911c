package inventory_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// A certificate is reported once its kubelet should have renewed it: in the last twentieth of its life, and after it.
func TestKubeletCertificateExpires(t *testing.T) {
	h := fakehost.New(t)
	begin := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	end := begin.Add(20 * time.Hour)
	if got := inventory.KubeletCertificateExpires(h.Root, begin); got != nil {
		t.Errorf("a host without a kubelet: %s", got)
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: begin, NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		t.Fatal(err)
	}
	file := h.Root.Path("/var/lib/kubelet/pki/kubelet-client-current.pem")
	pair := append(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("first")}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pair, 0o600); err != nil {
		t.Fatal(err)
	}
	for now, reported := range map[time.Time]bool{begin: false, end.Add(-time.Hour): false, end.Add(-time.Hour + time.Second): true, end.Add(time.Hour): true} {
		got := inventory.KubeletCertificateExpires(h.Root, now)
		if (got != nil) != reported || reported && !got.Time.Equal(end) {
			t.Errorf("at %s: %v, want %t", now, got, reported)
		}
	}
}
