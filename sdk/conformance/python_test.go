package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/conformance"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// python is the example in another language.
const python = "../examples/python/extension.py"

// pythonExtension is the example, which runs until the test ends.
type pythonExtension struct {
	url string
	ca  *hooktest.CA
	dir string
	cmd *exec.Cmd
}

func startPython(t *testing.T, args ...string) *pythonExtension {
	t.Helper()
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("SLIPWAY_REQUIRE_ROOT") != "" { // nothing may be left out
			t.Fatalf("%v; run `make python`", err)
		}
		t.Skip(err)
	}
	e := &pythonExtension{ca: hooktest.NewCA(t), dir: t.TempDir()}
	cert, key := e.ca.Files(e.dir, "server")
	args = append([]string{python, "--address", "127.0.0.1", "--port", "0", "--cert-file", cert, "--key-file", key}, args...)
	var log bytes.Buffer
	e.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), interpreter, args...)
	e.cmd.Env, e.cmd.Stderr = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), &log
	stdout, err := e.cmd.StdoutPipe()
	if err == nil {
		err = e.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = e.cmd.Process.Signal(syscall.SIGTERM)
		if err := e.cmd.Wait(); err != nil {
			t.Errorf("it ends with %v", err)
		}
		if t.Failed() {
			t.Logf("its log:\n%s", log.String())
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("it does not say where it listens: %v", err)
	}
	e.url = strings.TrimSpace(line)
	return e
}

// post returns the status and the body of an answer.
func (e *pythonExtension) post(t *testing.T, path, body string) (int, string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: e.ca.Pool()}, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// head sends a request as far as its headers and returns the status of the answer.
func (e *pythonExtension) head(t *testing.T, path, header string) int {
	t.Helper()
	dialer := &tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: e.ca.Pool()}}
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(e.url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\n"+header+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

func capiCatalog(t *testing.T) *hook.Catalog {
	t.Helper()
	c := hook.NewCatalog()
	if err := capi.AddToCatalog(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// An extension of which no line is ours, nor Go, conforms.
func TestPython(t *testing.T) {
	e := startPython(t)
	hooktest.Conformance(t, conformance.Options{URL: e.url, CABundle: e.ca.PEM, Catalog: capiCatalog(t)})
}

func TestPythonHoldsBack(t *testing.T) {
	e := startPython(t)
	c, discovered, err := hooktest.Discover(t.Context(), capiCatalog(t), hooktest.Config("python", e.url, e.ca.PEM))
	if err != nil {
		t.Fatal(err)
	}
	if len(discovered.Status.Handlers) != 1 || discovered.Status.Handlers[0].Name != "hold.python" {
		t.Errorf("it has the handlers %+v", discovered.Status.Handlers)
	}
	request := &hooksv1.BeforeClusterCreateRequest{}
	for annotation, want := range map[string]int32{"": 0, "example.com/hold": 30} {
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo", Annotations: map[string]string{annotation: "yes"}}}
		request.Cluster.Annotations = cluster.Annotations
		got, err := client.Call(t.Context(), c, capi.BeforeClusterCreate, "hold.python", cluster, request)
		if err != nil || got.RetryAfterSeconds != want {
			t.Errorf("annotation %q: %+v, %v", annotation, got, err)
		}
	}
}

// Text of others in a message is no reason for an answer that nobody can decode.
func TestPythonAnswersInUTF8(t *testing.T) {
	e := startPython(t)
	body := `{"cluster":{"metadata":{"annotations":{"example.com/hold":"\ud800"}}}}`
	code, text := e.post(t, hook.Path(capi.BeforeClusterCreate.Definition().Name, "hold"), body)
	if code != http.StatusOK || !strings.Contains(text, `"retryAfterSeconds": 30`) || !strings.Contains(text, "holds it back: ?") {
		t.Errorf("%d %s", code, text)
	}
}

// What is no request of the hook is a Failure that says why.
func TestPythonRefuses(t *testing.T) {
	e := startPython(t)
	hold := hook.Path(capi.BeforeClusterCreate.Definition().Name, "hold")
	for body, want := range map[string]string{
		`{"cluster":{},"cluster":{}}`:                  "twice",
		`{"cluster":{"metadata":{"annotations":"x"}}}`: "annotations: want dict",
		`{"cluster":[]}`:                               "cluster: want dict",
		`{}`:                                           "cluster: want dict",
		`[]`:                                           "not an object",
		"{\"cluster\":{},\"settings\":{\"a\":\"\xff\"}}": "not JSON",
		`{"cluster":{},"x":NaN}`:                         "NaN is not JSON",
		`{"cluster":{}} {}`:                              "not JSON",
		`{"kind":"BeforeClusterDeleteRequest"}`:          "BeforeClusterCreateRequest",
		`{"kind":"\ud800"}`:                              "BeforeClusterCreateRequest",
		strings.Repeat("[", 1_000_000):                   "not JSON",
		`{"cluster":{},"settings":{"a":1}}`:              "settings: want texts",
	} {
		code, text := e.post(t, hold, body)
		if code != http.StatusBadRequest || !strings.Contains(text, `"status": "Failure"`) || !strings.Contains(text, want) {
			t.Errorf("%.60s: %d %s", body, code, text)
		}
	}
	for header, want := range map[string]int{
		"Content-Length: 20971521": http.StatusRequestEntityTooLarge, "Transfer-Encoding: chunked": http.StatusLengthRequired, "Content-Length: -1": http.StatusLengthRequired,
	} {
		if code := e.head(t, hold, header); code != want {
			t.Errorf("%s: %d, want %d", header, code, want)
		}
	}
	if code, _ := e.post(t, hold+"-other", "{}"); code != http.StatusNotFound {
		t.Errorf("an unknown handler: %d", code)
	}
}

// Certificates are read again, and with CAs of clients a caller needs a certificate.
func TestPythonCertificates(t *testing.T) {
	callers := hooktest.NewCA(t)
	trusted := filepath.Join(t.TempDir(), "callers.crt")
	if err := os.WriteFile(trusted, callers.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	e := startPython(t, "--client-ca-file", trusted)
	if code, text := e.post(t, hook.Path(capi.Discovery.Definition().Name, ""), "{}"); code != http.StatusUnauthorized || !strings.Contains(text, "certificate") {
		t.Errorf("without a certificate: %d %s", code, text)
	}
	e.ca = hooktest.NewCA(t)
	e.ca.Files(e.dir, "server")
	cert, key := callers.Files(t.TempDir(), "caller")
	hooktest.Conformance(t, conformance.Options{URL: e.url, CABundle: e.ca.PEM, CertFile: cert, KeyFile: key, Catalog: capiCatalog(t)})
}
