package inventory_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// A node reaches its cluster while anything answers at the endpoint that the cluster's CA vouches for.
func TestEndpoint(t *testing.T) {
	h := fakehost.New(t)
	asked := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.URL.Path != "/livez" || r.Header.Get("Authorization") != "" {
			t.Errorf("the agent asks for %s with %v", r.URL, r.Header)
		}
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer server.Close()
	configure := func(path, url string, ca []byte) {
		t.Helper()
		file := h.Root.Path(path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("clusters: [{name: a, cluster: {server: %q, certificate-authority-data: %s}}]\n", url, base64.StdEncoding.EncodeToString(ca))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Date(2026, 5, 4, 12, 0, 0, 1, time.UTC)
	e := inventory.Endpoint{Root: h.Root, Now: func() time.Time { return now }}
	step := func(what, message string, since time.Time) {
		t.Helper()
		now = now.Add(10 * time.Second)
		failure := e.Failure(t.Context())
		switch {
		case failure == nil && message == "":
		case failure == nil || message == "" || !strings.Contains(failure.Message, message) || !failure.Since.Time.Equal(since.Truncate(time.Second)):
			t.Errorf("%s: got %+v, want %q since %s", what, failure, message, since)
		}
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	step("no kubeconfig", "", now)
	configure("/etc/kubernetes/kubelet.conf", server.URL, ca)
	step("it answers", "", now)
	if e.Failure(t.Context()); asked != 1 {
		t.Errorf("it was asked %d times, want once: the second answer is that of the first", asked)
	}
	configure("/etc/kubernetes/kubelet.conf", server.URL, nil)
	begin := now.Add(10 * time.Second)
	step("another machine answers", "certificate", begin)
	step("another machine answers still", "certificate", begin)
	configure("/etc/kubernetes/kubelet.conf", "https://127.0.0.1:1", ca)
	begin = now.Add(10 * time.Second)
	step("another endpoint", "refused", begin)
	configure("/etc/kubernetes/admin.conf", server.URL, ca)
	step("the kubelet of a control plane has its own API server", "", now)
}
