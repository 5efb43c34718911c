package preflight_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/preflight"
)

// TestProbe connects to a server that refuses everybody, which is answer enough, and
// must never see the token.
func TestProbe(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token was sent")
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	host := preflight.System{FS: hostfs.Root(t.TempDir()), Runner: command.System{}}
	write := func(url string, ca []byte) {
		c := clientcmdapi.NewConfig()
		c.Clusters["c"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
		c.AuthInfos["a"] = &clientcmdapi.AuthInfo{Token: "secret"}
		c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "a"}
		c.CurrentContext = "x"
		if err := clientcmd.WriteToFile(*c, host.FS.Path("/kubeconfig")); err != nil {
			t.Fatal(err)
		}
	}
	write(server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	began := time.Now().Truncate(time.Second) // as a header has it
	got, err := host.Probe(t.Context(), "/kubeconfig")
	if err != nil || got.Server != server.URL || got.Date.Before(began) {
		t.Errorf("got %+v, %v", got, err)
	}
	write(server.URL, nil)
	var authority x509.UnknownAuthorityError
	if got, err := host.Probe(t.Context(), "/kubeconfig"); !errors.As(err, &authority) || got.Server != server.URL {
		t.Errorf("a server of another authority: %+v, %v", got, err)
	}
	if _, err := host.Probe(t.Context(), "/nothing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no kubeconfig: %v", err)
	}
}

// TestSystemLooksBelowItsRoot also runs every check on this very machine.
func TestSystemLooksBelowItsRoot(t *testing.T) {
	root := hostfs.Root(t.TempDir())
	path := root.Path("/etc/kubernetes/manifests/a.yaml")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	host := preflight.System{FS: root, Runner: command.System{Identity: "test"}}
	if got := host.Glob("/etc/kubernetes/manifests/*.yaml"); len(got) != 1 || got[0] != "/etc/kubernetes/manifests/a.yaml" {
		t.Errorf("found %q", got)
	}
	if free, err := host.DiskFree("/var/lib/not/there"); err != nil || free == 0 {
		t.Errorf("free: %d, %v", free, err)
	}
	if out, err := host.Run(context.Background(), "sh", "-c", "echo x"); err != nil || out != "x\n" {
		t.Errorf("ran: %q, %v", out, err)
	}
}

// TestGlobBelowARoot: findings name paths of the host, whether or not the root ends with a slash.
func TestGlobBelowARoot(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{dir, dir + "/"} {
		if found := (preflight.System{FS: hostfs.At(root)}).Glob("/f*"); len(found) != 1 || found[0] != "/file" {
			t.Errorf("below %s is %q", root, found)
		}
	}
}
