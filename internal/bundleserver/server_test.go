package bundleserver_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/bundleserver"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

const tags = "/v2/host-bundles/tags/list"

func status(t *testing.T, response *http.Response, err error) int {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

// Only agents whose Host is there, is theirs and may be claimed are served.
func TestWhoIsServed(t *testing.T) {
	w := newWorld(t).loaded()
	w.addHost("pending", func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalPending })
	w.addHost("denied", func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalDenied })
	w.addHost("replaced", func(h *infrav1.Host) { h.Spec.HostID = "another-machine-with-another-key-0123" })
	user := func(name string) string { return infrav1.AgentUser("prod", name, hostID) }
	stranger := newAuthority(t, "kubernetes")
	for name, tt := range map[string]struct {
		config *tls.Config
		// want is the answer; 0 for none, since there is no connection.
		want int
		text string
	}{
		"the agent of a host":               {w.agent("host-1"), http.StatusOK, newer},
		"nobody":                            {w.as(), 0, ""},
		"another CA's client":               {w.as(stranger.sign(user("host-1"), infrav1.AgentGroup, time.Hour)), 0, ""},
		"a certificate that has ended":      {w.as(w.clients.sign(user("host-1"), infrav1.AgentGroup, -time.Hour)), 0, ""},
		"a certificate of a server":         {w.as(w.clients.sign("", infrav1.AgentGroup, time.Hour)), 0, ""},
		"an administrator":                  {w.as(w.clients.sign("admin", "system:masters", time.Hour)), http.StatusForbidden, "not the agent"},
		"a node of the management cluster":  {w.as(w.clients.sign("system:node:host-1", "system:nodes", time.Hour)), http.StatusForbidden, "not the agent"},
		"the enrollment certificate":        {w.as(w.clients.sign(infrav1.EnrollmentUser("prod", "host-1", hostID), "slipway:enrollments", time.Hour)), http.StatusForbidden, "not the agent"},
		"the agent's name without group":    {w.as(w.clients.sign(user("host-1"), "", time.Hour)), http.StatusForbidden, "not the agent"},
		"a host that is gone":               {w.agent("gone"), http.StatusForbidden, "no Host prod/gone"},
		"of another namespace":              {w.as(w.clients.sign(infrav1.AgentUser("dev", "host-1", hostID), infrav1.AgentGroup, time.Hour)), http.StatusForbidden, "no Host dev/host-1"},
		"the machine before":                {w.agent("replaced"), http.StatusForbidden, "another machine"},
		"a host that nobody approved":       {w.agent("pending"), http.StatusForbidden, "slipway host approve pending -n prod"},
		"a host that was denied":            {w.agent("denied"), http.StatusForbidden, "not approved"},
		"a name with more than three parts": {w.as(w.clients.sign(user("host-1")+":x", infrav1.AgentGroup, time.Hour)), http.StatusForbidden, "not the agent"},
	} {
		t.Run(name, func(t *testing.T) {
			response, err := w.get(tt.config, tags) //nolint:bodyclose // get closes it when the test ends
			if tt.want == 0 {
				if err == nil {
					t.Errorf("status %d", response.StatusCode)
				}
				return
			}
			if got := status(t, response, err); got != tt.want {
				t.Errorf("status %d, want %d", got, tt.want)
			}
			if body, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(body), tt.text) {
				t.Errorf("body %q, want %q: %v", body, tt.text, err)
			}
		})
	}
}

// Rights end with the Host, on a connection that is open, too.
func TestRightsEndWithTheHost(t *testing.T) {
	w := newWorld(t).loaded()
	transport := &http.Transport{TLSClientConfig: w.agent("host-1"), MaxConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	get := func() int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+w.address+tags, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		return response.StatusCode
	}
	if got := get(); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	host := &infrav1.Host{}
	host.Namespace, host.Name = "prod", "host-1"
	if err := w.hosts.Delete(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	if got := get(); got != http.StatusForbidden {
		t.Errorf("status %d after the Host was deleted", got)
	}
	if _, err := machine(t).Fetch(t.Context(), software.Wanted{Version: newer}, w.keys, w.source("host-1")); reasonOf(err) != hostbundle.ReasonDenied || !strings.Contains(err.Error(), "no Host prod/host-1") {
		t.Errorf("err = %v", err)
	}
}

// layerOf is the path of the largest blob that is served.
func layerOf(t *testing.T, w *world) (path string, size int64) {
	t.Helper()
	blobs, err := filepath.Glob(filepath.Join(w.store.Dir, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, blob := range blobs {
		if info, err := os.Stat(blob); err == nil && info.Size() > size {
			path, size = "/v2/host-bundles/blobs/sha256:"+filepath.Base(blob), info.Size()
		}
	}
	return path, size
}

// Nothing but bundles is served, and nothing is written.
func TestOnlyBundlesAreServed(t *testing.T) {
	w := newWorld(t).loaded()
	secret := filepath.Join(w.store.Dir, "blobs", "sha256", strings.Repeat("a", 64))
	if err := os.WriteFile(secret, []byte("in the directory, and in no bundle"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/v2/host-bundles/blobs/sha256:" + strings.Repeat("a", 64), "/v2/host-bundles/blobs/../../../../etc/passwd", "/v2/host-bundles/blobs/..%2f..%2findex.json",
		"/v2/host-bundles/blobs/sha256:..%2f..%2f..%2findex.json", "/v2/other/tags/list", "/v2/_catalog", "/", "/v2/host-bundles/manifests/latest", "/index.json",
	} {
		response, err := w.get(w.agent("host-1"), path) //nolint:bodyclose // get closes it when the test ends
		if got := status(t, response, err); got != http.StatusNotFound && got != http.StatusMovedPermanently && got != http.StatusTemporaryRedirect {
			t.Errorf("%s: status %d", path, got)
		}
	}
	layer, size := layerOf(t, w)
	response, err := w.get(w.agent("host-1"), layer, "Range: bytes=1000-1099") //nolint:bodyclose // get closes it when the test ends
	if got := status(t, response, err); got != http.StatusPartialContent || response.Header.Get("Content-Range") != "bytes 1000-1099/"+strconv.FormatInt(size, 10) {
		t.Errorf("status %d of a range, %v", got, response.Header)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: w.agent("host-1")}}
	defer client.CloseIdleConnections()
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		for _, path := range []string{"/v2/host-bundles/blobs/uploads/", "/v2/host-bundles/manifests/" + newer, layer} {
			request, err := http.NewRequestWithContext(t.Context(), method, "https://"+w.address+path, strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusMethodNotAllowed && response.StatusCode != http.StatusNotFound {
				t.Errorf("%s %s: status %d", method, path, response.StatusCode)
			}
		}
	}
}

// Who comes beyond the limits is told when to come again, and gets its bundle in the end.
func TestLimits(t *testing.T) {
	w := newWorld(t, func(o *bundleserver.Options) { o.Downloads, o.DownloadsOfHost = 3, 2 })
	w.layer = 16 << 20 // more than the buffers of a connection hold
	w.load(w.layout(runtime.GOARCH, w.signer), newer)
	w.addHost("host-2")
	w.addHost("host-3")
	layer, _ := layerOf(t, w)
	// A client that reads nothing keeps its place.
	first, err := w.get(w.agent("host-1"), layer)
	if got := status(t, first, err); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	second, err := w.get(w.agent("host-1"), layer)
	if got := status(t, second, err); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	third, err := w.get(w.agent("host-1"), layer) //nolint:bodyclose // get closes it when the test ends
	if got := status(t, third, err); got != http.StatusTooManyRequests || third.Header.Get("Retry-After") == "" {
		t.Errorf("status %d of one host's third download, %v", got, third.Header)
	}
	other, err := w.get(w.agent("host-2"), layer)
	if got := status(t, other, err); got != http.StatusOK {
		t.Errorf("status %d of another host", got)
	}
	full, err := w.get(w.agent("host-3"), layer) //nolint:bodyclose // get closes it when the test ends
	if got := status(t, full, err); got != http.StatusTooManyRequests {
		t.Errorf("status %d of one host too many", got)
	}
	refused := func() float64 {
		return w.metric("slipway_host_bundle_requests_total", map[string]string{"outcome": "tooMany"})
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if err := poll.Wait(func() error {
			if got := refused(); got < 3 {
				return fmt.Errorf("%v requests were refused, want the two above and one of the agent at least", got)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		for _, r := range []*http.Response{first, second, other} {
			_ = r.Body.Close()
		}
	})
	if _, err := machine(t).Fetch(t.Context(), software.Wanted{Version: newer}, w.keys, w.source("host-3")); err != nil {
		t.Error(err)
	}
	waiting.Wait()
}

// Bundles are loaded and removed while they are served.
func TestLoadedWhileServed(t *testing.T) {
	w := newWorld(t)
	versions := func() []string {
		t.Helper()
		response, err := w.get(w.agent("host-1"), tags) //nolint:bodyclose // get closes it when the test ends
		if got := status(t, response, err); got != http.StatusOK {
			t.Fatalf("status %d", got)
		}
		var list struct{ Tags []string }
		if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
			t.Fatal(err)
		}
		return list.Tags
	}
	if got := versions(); len(got) != 0 {
		t.Errorf("versions %v without a directory", got)
	}
	dir := w.layout(runtime.GOARCH, w.signer)
	w.load(dir, older)
	if got := strings.Join(versions(), " "); got != older {
		t.Errorf("versions %v", got)
	}
	w.load(dir)
	if got := strings.Join(versions(), " "); got != older+" "+newer {
		t.Errorf("versions %v", got)
	}
	if err := w.store.Remove(older); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(versions(), " "); got != newer {
		t.Errorf("versions %v", got)
	}
	if _, err := machine(t).Fetch(t.Context(), software.Wanted{Version: newer}, w.keys, w.source("host-1")); err != nil {
		t.Error(err)
	}
}

// A server without an address for hosts, or without the CA of their certificates, does not start.
func TestOptionsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*bundleserver.Options){
		"no URL":        func(o *bundleserver.Options) { o.URL = "" },
		"plain HTTP":    func(o *bundleserver.Options) { o.URL = "http://192.0.2.10" },
		"a path":        func(o *bundleserver.Options) { o.URL = "https://192.0.2.10/x" },
		"no downloads":  func(o *bundleserver.Options) { o.Downloads = 0 },
		"a credentials": func(o *bundleserver.Options) { o.URL = "https://a:b@192.0.2.10" },
	} {
		t.Run(name, func(t *testing.T) {
			o := bundleserver.DefaultOptions()
			o.Dir, o.URL = t.TempDir(), "https://192.0.2.10:9445"
			if err := o.Validate(); err != nil {
				t.Fatal(err)
			}
			if change(&o); o.Validate() == nil {
				t.Error("no error")
			}
		})
	}
}
