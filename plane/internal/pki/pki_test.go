package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func authority(t *testing.T, dir string, now time.Time) (*Authority, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(now)
	a := New(Options{
		Dir:             filepath.Join(dir, "pki"),
		ServerIPs:       []net.IP{net.IPv4(10, 88, 0, 1)},
		Clients:         []Client{{Name: "worker", User: "system:serviceaccount:ns:worker", Groups: []string{"system:serviceaccounts"}}},
		Servers:         []Server{{Name: "beside", DNSNames: []string{"beside.ns.svc"}}},
		AdminServer:     "https://127.0.0.1:6443",
		AdminKubeconfig: filepath.Join(dir, "kubeconfig"),
		Clock:           clock,
	})
	if err := a.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a, clock
}

func cert(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	c, err := loadCert(path)
	if err != nil || c == nil {
		t.Fatalf("%s: %v", path, err)
	}
	return c
}

// snapshot is the content of every file below dir, by name.
func snapshot(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, error %v", path, info.Mode(), err)
		}
		data, err := os.ReadFile(path)
		files[path] = data
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func changed(before, after map[string][]byte) []string {
	var names []string
	for path, data := range after {
		if !bytes.Equal(before[path], data) {
			names = append(names, filepath.Base(path))
		}
	}
	return names
}

func TestServingCertificateIsTrusted(t *testing.T) {
	a, clock := authority(t, t.TempDir(), epoch)
	roots := x509.NewCertPool()
	roots.AddCert(cert(t, a.CACertFile()))
	for _, name := range []string{"127.0.0.1", "::1", "10.88.0.1", "localhost", "kubernetes.default.svc"} {
		_, err := cert(t, a.ServingCertFile()).Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: clock.Now()})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, dir := range []string{a.WebhookCertDir(), a.ServerCertDir("beside")} {
		if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	for _, name := range []string{"127.0.0.1", "beside.ns.svc"} {
		_, err := cert(t, filepath.Join(a.ServerCertDir("beside"), "tls.crt")).Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: clock.Now()})
		if err != nil {
			t.Errorf("the program beside, %s: %v", name, err)
		}
	}
}

func TestOnlyTheAdministratorIsInSystemMasters(t *testing.T) {
	a, _ := authority(t, t.TempDir(), epoch)
	worker := cert(t, a.file("worker.crt")).Subject
	if worker.CommonName != "system:serviceaccount:ns:worker" || worker.Organization[0] != "system:serviceaccounts" {
		t.Errorf("worker is %v", worker)
	}
	kc, err := clientcmd.LoadFromFile(a.opts.AdminKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.NewDefaultClientConfig(*kc, nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != a.opts.AdminServer || config.CertFile != "" || len(config.CertData) == 0 || len(config.CAData) == 0 {
		t.Error("the kubeconfig is not complete in itself")
	}
	if org := cert(t, a.file("admin.crt")).Subject.Organization; len(org) != 1 || org[0] != "system:masters" {
		t.Errorf("administrator is in %v", org)
	}
}

func TestRenewal(t *testing.T) {
	leaves := 5 // apiserver, webhook, beside, admin, worker
	tests := map[string]struct {
		after time.Duration
		// wantChanged counts files; the kubeconfig changes with the admin's.
		wantChanged int
		wantNewCA   bool
	}{
		"at once":                      {after: 0},
		"with more than a third left":  {after: LeafLife/3*2 - 48*time.Hour},
		"with less than a third left":  {after: LeafLife/3*2 + 48*time.Hour, wantChanged: leaves + 1},
		"after the leaves have ended":  {after: 2 * LeafLife, wantChanged: leaves + 1},
		"when the CA grows short":      {after: CALife/3*2 + 48*time.Hour, wantChanged: leaves + 2, wantNewCA: true},
		"after everything has expired": {after: 2 * CALife, wantChanged: leaves + 2, wantNewCA: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first, _ := authority(t, dir, epoch)
			oldCA := cert(t, first.CACertFile())
			before := snapshot(t, dir)

			a, clock := authority(t, dir, epoch.Add(tt.after))
			got := changed(before, snapshot(t, dir))
			if len(got) != tt.wantChanged {
				t.Errorf("%d files changed, want %d: %v", len(got), tt.wantChanged, got)
			}
			if a.short(cert(t, a.ServingCertFile())) {
				t.Error("the serving certificate is short of life")
			}
			if !tt.wantNewCA {
				return
			}
			// Whoever still holds the old CA accepts what the new one signed.
			if err := cert(t, a.ServingCertFile()).CheckSignatureFrom(oldCA); err != nil {
				t.Errorf("old CA does not verify the new certificate: %v", err)
			}
			if ca := cert(t, a.CACertFile()); ca.NotAfter.Before(clock.Now().Add(CALife - time.Hour)) {
				t.Errorf("new CA ends %s", ca.NotAfter)
			}
		})
	}
}

func TestRenewalWhileRunning(t *testing.T) {
	dir := t.TempDir()
	a, clock := authority(t, dir, epoch)
	old := cert(t, a.ServingCertFile())
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.Step(LeafLife - 24*time.Hour)
	poll.True(t, "the certificate is renewed", func() bool { return !cert(t, a.ServingCertFile()).Equal(old) })
	if err := a.Stop(poll.Context(t)); err != nil {
		t.Error(err)
	}
}

func TestRepairs(t *testing.T) {
	tests := map[string]struct {
		damage func(t *testing.T, a *Authority)
	}{
		"certificate is missing": {func(t *testing.T, a *Authority) { remove(t, a.ServingCertFile()) }},
		// A crash between the writes of a key and its certificate.
		"key is new":       {func(t *testing.T, a *Authority) { remove(t, a.ServingKeyFile()) }},
		"CA key is new":    {func(t *testing.T, a *Authority) { remove(t, a.CAKeyFile()) }},
		"CA is missing":    {func(t *testing.T, a *Authority) { remove(t, a.CACertFile()) }},
		"address is added": {func(_ *testing.T, a *Authority) { a.opts.ServerIPs = append(a.opts.ServerIPs, net.IPv4(10, 9, 8, 7)) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, clock := authority(t, t.TempDir(), epoch)
			tt.damage(t, a)
			if err := a.Init(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := tls.LoadX509KeyPair(a.ServingCertFile(), a.ServingKeyFile()); err != nil {
				t.Error(err)
			}
			roots := x509.NewCertPool()
			roots.AddCert(cert(t, a.CACertFile()))
			ip := a.opts.ServerIPs[len(a.opts.ServerIPs)-1].String()
			if _, err := cert(t, a.ServingCertFile()).Verify(x509.VerifyOptions{Roots: roots, DNSName: ip, CurrentTime: clock.Now()}); err != nil {
				t.Error(err)
			}
		})
	}
}

// Names and addresses that were given up leave the certificate at the next start, and the
// order in which they are given is no reason for another one.
func TestNamesThatAreGivenUp(t *testing.T) {
	a, _ := authority(t, t.TempDir(), epoch)
	serving := func(ips []net.IP, names ...string) *x509.Certificate {
		t.Helper()
		a.opts.ServerIPs, a.opts.ServerNames = ips, names
		if err := a.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		return cert(t, a.ServingCertFile())
	}
	inside, outside := net.IPv4(10, 88, 0, 1), net.IPv4(192, 0, 2, 10).To4()
	both := serving([]net.IP{inside, outside}, "a.example", "b.example")
	if again := serving([]net.IP{outside, inside, inside}, "b.example", "a.example"); !again.Equal(both) {
		t.Error("another certificate was made for the same names")
	}
	oneName := serving([]net.IP{inside, outside}, "a.example")
	if oneName.VerifyHostname("b.example") == nil || oneName.VerifyHostname("a.example") != nil {
		t.Errorf("the certificate is for %v", oneName.DNSNames)
	}
	if oneIP := serving([]net.IP{inside}, "a.example"); oneIP.VerifyHostname("192.0.2.10") == nil || oneIP.VerifyHostname("10.88.0.1") != nil {
		t.Errorf("the certificate is for %v", oneIP.IPAddresses)
	}
}

func TestDamagedFileIsNamed(t *testing.T) {
	a, _ := authority(t, t.TempDir(), epoch)
	if err := os.WriteFile(a.CACertFile(), []byte("not a certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := a.Init(t.Context())
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte(a.CACertFile())) {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
