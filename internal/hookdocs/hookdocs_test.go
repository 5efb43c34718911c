package hookdocs_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/hookdocs"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/sdk/openapi"
)

func TestCatalogs(t *testing.T) {
	counts := map[string]int{}
	for _, name := range hookdocs.Names() {
		document, err := hookdocs.Document(name)
		if err != nil {
			t.Fatal(err)
		}
		counts[name] = len(document.Paths)
		if _, err := openapi.Catalog(document); err != nil {
			t.Errorf("%s cannot be the target of an upgrade check: %v", name, err)
		}
	}
	if counts[hookdocs.All] != counts[hookdocs.CAPI]+counts[hookdocs.Host] || counts[hookdocs.Host] != 2 || counts[hookdocs.CAPI] < 17 {
		t.Errorf("hooks: %v", counts)
	}
	if _, err := hookdocs.Document("other"); err == nil {
		t.Error("an unknown catalog was accepted")
	}
}

func newServer(t *testing.T) *httptest.Server {
	t.Helper()
	handler, err := hookdocs.Handler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// TestPageIsSelfContained holds that the page loads nothing from elsewhere, and is
// not allowed to.
func TestPageIsSelfContained(t *testing.T) {
	for _, file := range []string{"viewer.html", "viewer.js", "viewer.css"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, banned := range []string{"http://", "https://", "//cdn", "innerHTML", "eval("} {
			if strings.Contains(string(data), banned) {
				t.Errorf("%s contains %q", file, banned)
			}
		}
	}
	server := newServer(t)
	for path, want := range map[string]int{"/": 200, "/viewer.js": 200, "/viewer.css": 200, "/v3/capi.json": 200, "/v3/other.json": 404, "/../serve": 404} {
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, response.StatusCode, want)
		}
		if want == 200 && !strings.Contains(response.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s has no content security policy", path)
		}
	}
	response, err := http.Post(server.URL+"/", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", response.StatusCode)
	}
}

// TestBrowser renders the page in a real browser, without a network.
func TestBrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("SLIPWAY_REQUIRE_CHROMIUM") != "" {
			t.Fatal("chromium is missing: apt-get install --no-install-recommends chromium")
		}
		t.Skip("needs chromium: apt-get install --no-install-recommends chromium")
	}
	server := newServer(t)
	dump := func(t *testing.T, fragment string) string {
		t.Helper()
		command := exec.CommandContext(poll.Context(t), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
			"--no-first-run", "--user-data-dir="+t.TempDir(), "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
			"--virtual-time-budget=5000", "--dump-dom", server.URL+"/"+fragment)
		command.Env = append(os.Environ(), "HOME="+t.TempDir())
		out, err := command.Output()
		if err != nil {
			t.Fatalf("chromium: %v", err)
		}
		return string(out)
	}
	tags := regexp.MustCompile(`<[^>]*>`)
	for name, tc := range map[string]struct {
		fragment string
		want     []string
		not      string
	}{
		"all hooks":   {"", []string{"Runtime hooks of Cluster API and the slipway provider", "BeforeClusterCreate", "BeforeHostClaim", "deprecated", "blocking", "Choose a hook."}, ""},
		"one catalog": {"#host", []string{"Runtime hooks of the slipway provider", "AfterHostRelease"}, "BeforeClusterCreate"},
		"one hook": {"#capi/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/%7Bname%7D", []string{
			"POST /hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/{name}", "introduced in v1.2.0", "retryAfterSeconds", "Example",
		}, "BeforeHostClaim"},
	} {
		t.Run(name, func(t *testing.T) {
			text := tags.ReplaceAllString(dump(t, tc.fragment), "\n")
			for _, want := range tc.want {
				if !strings.Contains(text, want) {
					t.Errorf("the page does not show %q:\n%.3000s", want, text)
				}
			}
			if tc.not != "" && strings.Contains(text, tc.not) {
				t.Errorf("the page shows %q", tc.not)
			}
		})
	}
}
