package extension_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/hooks/host/v1beta1"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/internal/poll"
)

type (
	request  = hooksv1.BeforeClusterCreateRequest
	response = hooksv1.BeforeClusterCreateResponse
)

func handle(s *extension.Server, name string, fn func(context.Context, *request) (*response, error), o ...extension.HandlerOption) error {
	return extension.Handle(s, capi.BeforeClusterCreate, name, fn, o...)
}

func answerNil(context.Context, *request) (*response, error) { return nil, nil }

func newServer(t *testing.T, o extension.Options) *extension.Server {
	t.Helper()
	s, err := extension.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const createPath = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/h"

func post(s *extension.Server, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func TestRegistrationIsValidated(t *testing.T) {
	s := newServer(t, extension.Options{})
	if err := handle(s, "taken", answerNil); err != nil {
		t.Fatal(err)
	}
	unknown := hook.Define[request, response](hooksv1.GroupVersion, "Unknown", hook.Meta{})
	for name, err := range map[string]error{
		"nil function":     handle(s, "h", nil),
		"bad name":         handle(s, "Bad_Name", answerNil),
		"duplicate":        handle(s, "taken", answerNil),
		"timeout too long": handle(s, "h", answerNil, extension.WithTimeout(31*time.Second)),
		"half a second":    handle(s, "h", answerNil, extension.WithTimeout(time.Second/2)),
		"policy":           handle(s, "h", answerNil, extension.WithFailurePolicy("Maybe")),
		"unknown hook":     extension.Handle(s, unknown, "h", answerNil),
		"zero hook":        extension.Handle(s, hook.Hook[request, response]{}, "h", answerNil),
		"discovery": extension.Handle(s, capi.Discovery, "h", func(context.Context, *hooksv1.DiscoveryRequest) (*hooksv1.DiscoveryResponse, error) {
			return nil, nil
		}),
	} {
		if err == nil {
			t.Errorf("%s: the registration was accepted", name)
		}
	}
}

func TestOutcomes(t *testing.T) {
	tests := map[string]struct {
		err     error
		status  hooksv1.ResponseStatus
		retry   int32
		message string
	}{
		"nil":         {nil, hooksv1.ResponseStatusSuccess, 0, ""},
		"error":       {errors.New("broken"), hooksv1.ResponseStatusFailure, 0, "broken"},
		"retry":       {extension.RetryAfter(1500*time.Millisecond, "wait"), hooksv1.ResponseStatusSuccess, 2, "wait"},
		"wrapped":     {fmt.Errorf("x: %w", extension.RetryAfter(time.Minute, "wait")), hooksv1.ResponseStatusSuccess, 60, "wait"},
		"retry never": {extension.RetryAfter(-1, "wait"), hooksv1.ResponseStatusSuccess, 1, "wait"},
		"retry long":  {extension.RetryAfter(1000*time.Hour, "wait"), hooksv1.ResponseStatusSuccess, 3600, "wait"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, extension.Options{})
			if err := handle(s, "h", func(context.Context, *request) (*response, error) { return nil, tt.err }); err != nil {
				t.Fatal(err)
			}
			got := hooktest.Call(t, s, capi.BeforeClusterCreate, "h", &request{})
			if got.Status != tt.status || got.RetryAfterSeconds != tt.retry || got.Message != tt.message || got.Kind != "BeforeClusterCreateResponse" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestResponsesAreTheHandlersOwn lets a handler return one response for all calls. What one
// call came to does not show in another one.
func TestResponsesAreTheHandlersOwn(t *testing.T) {
	shared := &response{}
	outcomes := []error{errors.New("broken"), extension.RetryAfter(time.Minute, "wait"), nil}
	s, calls := newServer(t, extension.Options{}), 0
	if err := handle(s, "h", func(context.Context, *request) (*response, error) {
		calls++
		return shared, outcomes[calls-1]
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []hooksv1.ResponseStatus{hooksv1.ResponseStatusFailure, hooksv1.ResponseStatusSuccess, hooksv1.ResponseStatusSuccess} {
		got := hooktest.Call(t, s, capi.BeforeClusterCreate, "h", &request{})
		if waits := calls == 2; got.Status != want || (got.RetryAfterSeconds != 0) != waits || (got.Message == "") != (outcomes[calls-1] == nil) {
			t.Errorf("call %d: got %+v", calls, got)
		}
	}
	if *shared != (response{}) {
		t.Errorf("the server wrote into the response of the handler: %+v", shared)
	}
}

// TestHookThatCannotBlock asks for a retry where the response cannot carry the wish:
// the caller must not go on as if all were well.
func TestHookThatCannotBlock(t *testing.T) {
	s := newServer(t, extension.Options{})
	err := extension.Handle(s, capi.AfterControlPlaneInitialized, "h", func(context.Context, *hooksv1.AfterControlPlaneInitializedRequest) (*hooksv1.AfterControlPlaneInitializedResponse, error) {
		return nil, extension.RetryAfter(time.Minute, "not yet")
	})
	if err != nil {
		t.Fatal(err)
	}
	got := hooktest.Call(t, s, capi.AfterControlPlaneInitialized, "h", &hooksv1.AfterControlPlaneInitializedRequest{})
	if got.Status != hooksv1.ResponseStatusFailure || !strings.Contains(got.Message, "not yet") {
		t.Errorf("got %+v, want a failure that says what the handler waits for", got)
	}
}

func TestBadRequests(t *testing.T) {
	s := newServer(t, extension.Options{MaxRequestBytes: 1000})
	if err := handle(s, "h", answerNil); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		path, body string
		header     []string
		want       int
	}{
		"good":            {createPath + "?timeout=5s", `{}`, nil, http.StatusOK},
		"not JSON":        {createPath, `<xml>`, nil, http.StatusBadRequest},
		"empty":           {createPath, ``, nil, http.StatusBadRequest},
		"array":           {createPath, `[]`, nil, http.StatusBadRequest},
		"two documents":   {createPath, `{}{}`, nil, http.StatusBadRequest},
		"duplicate names": {createPath, `{"settings":{"a":"1","a":"2"}}`, nil, http.StatusBadRequest},
		"other kind":      {createPath, `{"kind":"BeforeClusterDeleteRequest"}`, nil, http.StatusBadRequest},
		"bad timeout":     {createPath + "?timeout=soon", `{}`, nil, http.StatusBadRequest},
		"gzip":            {createPath, `{}`, []string{"Content-Encoding", "gzip"}, http.StatusUnsupportedMediaType},
		"too large":       {createPath, `{"settings":{"a":"` + strings.Repeat("a", 2000) + `"}}`, nil, http.StatusRequestEntityTooLarge},
		"unknown handler": {createPath + "x", `{}`, nil, http.StatusNotFound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if w := post(s, tt.path, tt.body, tt.header...); w.Code != tt.want {
				t.Errorf("HTTP status %d, want %d: %s", w.Code, tt.want, w.Body)
			}
		})
	}
}

func TestPanicAndHangAreAnswered(t *testing.T) {
	s := newServer(t, extension.Options{})
	release := make(chan struct{})
	defer close(release)
	for name, fn := range map[string]func(context.Context, *request) (*response, error){
		"panic": func(context.Context, *request) (*response, error) { panic("secret") },
		"hang":  func(context.Context, *request) (*response, error) { <-release; return nil, nil },
	} {
		if err := handle(s, name, fn); err != nil {
			t.Fatal(err)
		}
	}
	path := strings.TrimSuffix(createPath, "h")
	if w := post(s, path+"panic", `{}`); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("panic: HTTP status %d: %s", w.Code, w.Body)
	}
	if w := post(s, path+"hang?timeout=20ms", `{}`); w.Code != http.StatusGatewayTimeout {
		t.Errorf("hang: HTTP status %d: %s", w.Code, w.Body)
	}
	r := httptest.NewRecorder()
	s.Handler().ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{`panics_total{handler="panic"} 1`, "handlers_abandoned 1"} {
		if !strings.Contains(r.Body.String(), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

func TestDiscoveryIsSorted(t *testing.T) {
	s := newServer(t, extension.Options{})
	for _, name := range []string{"c", "a", "b"} {
		if err := handle(s, name, answerNil); err != nil {
			t.Fatal(err)
		}
	}
	got := hooktest.Call(t, s, capi.Discovery, "", &hooksv1.DiscoveryRequest{})
	if len(got.Handlers) != 3 || got.Handlers[0].Name != "a" || got.Handlers[2].Name != "c" || *got.Handlers[0].TimeoutSeconds != 10 {
		t.Errorf("got %+v", got.Handlers)
	}
}

// TestNewerCaller calls a handler of v1alpha1 at the path of v1beta1.
func TestNewerCaller(t *testing.T) {
	catalog := hook.NewCatalog()
	if err := host.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	older := hooktest.Older(t, catalog, host.BeforeHostClaim, "v1alpha1")
	s := newServer(t, extension.Options{Catalog: catalog})
	if err := extension.Handle(s, older, "claim", func(_ context.Context, r *v1beta1.BeforeHostClaimRequest) (*v1beta1.BeforeHostClaimResponse, error) {
		return nil, extension.RetryAfter(time.Second, r.APIVersion+" "+r.Host.Name)
	}); err != nil {
		t.Fatal(err)
	}
	got := hooktest.Call(t, s, host.BeforeHostClaim, "claim", &v1beta1.BeforeHostClaimRequest{Host: v1beta1.Host{Name: "host-1"}})
	if got.Message != older.Definition().RequestKind.GroupVersion().String()+" host-1" || got.APIVersion != v1beta1.GroupVersion.String() {
		t.Errorf("got %+v", got)
	}
	w := post(s, hook.Path(older.Definition().Name, "claim"), `{}`)
	if !strings.Contains(w.Header().Get("Warning"), "deprecated") {
		t.Errorf("the response of a deprecated version has the warning %q", w.Header().Get("Warning"))
	}
}

func get(c *http.Client, url string) (int, error) {
	r, err := c.Get(url) //nolint:noctx // bounded by the client's timeout
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	return r.StatusCode, err
}

func httpClient(ca *hooktest.CA, certs ...tls.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM)
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certs, MinVersion: tls.VersionTLS12}}}
}

func TestClientCertificatesAndRotation(t *testing.T) {
	first, second := hooktest.NewCA(t), hooktest.NewCA(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "ca.crt")
	write := func(ca *hooktest.CA) {
		if err := os.WriteFile(file, ca.PEM, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	ext := hooktest.Start(t, extension.Options{ClientCAFile: file}, func(s *extension.Server) error { return handle(s, "h", answerNil) })
	pair := func(ca *hooktest.CA) tls.Certificate {
		p, err := tls.X509KeyPair(ca.Issue("caller"))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if code, err := get(httpClient(ext.CA), ext.URL+"/readyz"); err != nil || code != http.StatusOK {
		t.Errorf("/readyz without a certificate: %d, %v", code, err)
	}
	if code, err := get(httpClient(ext.CA), ext.URL+"/openapi/v3"); err != nil || code != http.StatusUnauthorized {
		t.Errorf("/openapi/v3 without a certificate: %d, %v", code, err)
	}
	if code, err := get(httpClient(ext.CA, pair(first)), ext.URL+"/openapi/v3"); err != nil || code != http.StatusOK {
		t.Errorf("/openapi/v3 with a certificate: %d, %v", code, err)
	}
	write(second)
	poll.Until(t, "the new client CA is used", func() error {
		code, err := get(httpClient(ext.CA, pair(second)), ext.URL+"/openapi/v3")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("HTTP status %d", code)
		}
		return err
	})
	if code, err := get(httpClient(ext.CA, pair(first)), ext.URL+"/openapi/v3"); err == nil && code == http.StatusOK {
		t.Error("the old client CA is still trusted")
	}
}

func TestSlowlorisLeavesOthersServed(t *testing.T) {
	t.Parallel() // it waits for the ReadTimeout to end
	ext := hooktest.Start(t, extension.Options{ReadTimeout: 10 * time.Second}, func(s *extension.Server) error { return handle(s, "h", answerNil) })
	address := strings.TrimPrefix(ext.URL, "https://")
	var stalled []*tls.Conn
	for range 200 {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the attacker does not care
		if err != nil {
			continue // a handshake that stalls is ended, too, as on a machine with much else to do
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n{", createPath)
		stalled = append(stalled, conn)
	}
	if len(stalled) < 100 {
		t.Fatalf("only %d connections stall", len(stalled))
	}
	r, err := httpClient(ext.CA).Post(ext.URL+createPath, "application/json", strings.NewReader(`{}`)) //nolint:noctx // bounded by the client's timeout
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("others are not served: %v, %v", r, err)
	}
	_ = r.Body.Close()
	for _, conn := range stalled {
		_, _ = io.Copy(io.Discard, conn) // until the server closes it
	}
}

// TestSilentConnectionsKeepNobodyOut holds that connections without a certificate of a caller have a limit, and take
// no connection of a caller. The first one may be silent for longer than the others, as it has made its handshake, and
// is closed before them.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	t.Parallel() // it waits for silent connections to time out
	callers := hooktest.NewCA(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, callers.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	ext := hooktest.Start(t, extension.Options{ClientCAFile: file, MaxConcurrent: 1}, func(s *extension.Server) error { return handle(s, "h", answerNil) })
	pair, err := tls.X509KeyPair(callers.Issue("caller"))
	if err != nil {
		t.Fatal(err)
	}
	caller := httpClient(ext.CA, pair)
	caller.Transport.(*http.Transport).DisableKeepAlives = false
	t.Cleanup(caller.CloseIdleConnections)
	connections := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{ConnectDone: func(string, string, error) { connections++ }})
	call := func() {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, ext.URL+"/openapi/v3", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := caller.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v", response.Status, err)
		}
	}
	call()
	closed := make(chan int, 3)
	for i := range cap(closed) {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(ext.URL, "https://"))
		if err == nil && i == 0 {
			// A client of TLS 1.2 has the last word of the server at the end, after which the connection is silent.
			c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}) //nolint:gosec // the attacker does not care
			err = c.(*tls.Conn).HandshakeContext(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		go func() {
			_, _ = io.Copy(io.Discard, c)
			closed <- i
		}()
	}
	if first := <-closed; first != 0 {
		t.Errorf("silent connection %d was closed first", first)
	}
	if call(); connections != 1 {
		t.Errorf("the caller had to make %d connections", connections)
	}
}

func TestDrainLetsHandlersEnd(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	ext := hooktest.Start(t, extension.Options{}, func(s *extension.Server) error {
		return handle(s, "h", func(context.Context, *request) (*response, error) {
			close(entered)
			<-release
			return nil, nil
		})
	})
	code := make(chan int, 1)
	go func() {
		r, err := httpClient(ext.CA).Post(ext.URL+createPath, "application/json", strings.NewReader(`{}`)) //nolint:noctx // bounded by the client's timeout
		if err != nil {
			code <- 0
			return
		}
		_ = r.Body.Close()
		code <- r.StatusCode
	}()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- ext.Stop() }()
	poll.Until(t, "the server takes no more connections", func() error {
		conn, err := net.Dial("tcp", strings.TrimPrefix(ext.URL, "https://"))
		if err != nil {
			return nil //nolint:nilerr // refused, as it should be
		}
		return errors.Join(conn.Close(), errors.New("it still does"))
	})
	select {
	case err := <-stopped:
		t.Fatal("the server ended before its handler: ", err)
	default:
	}
	close(release)
	if got := <-code; got != http.StatusOK {
		t.Errorf("the running call got HTTP status %d", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestReplacedClientCAEndsConnections replaces the CA of the callers under an open
// connection: the next request on it is refused, and it is closed.
func TestReplacedClientCAEndsConnections(t *testing.T) {
	first, second := hooktest.NewCA(t), hooktest.NewCA(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, first.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	ext := hooktest.Start(t, extension.Options{ClientCAFile: file}, func(s *extension.Server) error { return handle(s, "h", answerNil) })
	pair, err := tls.X509KeyPair(first.Issue("caller"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(ext.URL, "https://"), &tls.Config{
		RootCAs: ext.CA.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	call := func() (code int, closed bool) {
		t.Helper()
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", createPath)
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		return response.StatusCode, response.Close
	}
	for range 2 {
		if code, closed := call(); code != http.StatusOK || closed {
			t.Fatalf("under the first CA: HTTP status %d, closed: %t", code, closed)
		}
	}
	if err := os.WriteFile(file, second.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the open connection of a caller whose CA was replaced is closed", func() error {
		code, closed := call()
		if code == http.StatusUnauthorized && closed {
			return nil
		}
		return fmt.Errorf("HTTP status %d, closed: %t", code, closed)
	})
}

// TestEveryRefusalHasABody refuses with texts that are not UTF-8, and answers with
// what cannot be encoded: there is always a body that decodes, and a refusal stays one.
func TestEveryRefusalHasABody(t *testing.T) {
	type (
		patchRequest  = hooksv1.GeneratePatchesRequest
		patchResponse = hooksv1.GeneratePatchesResponse
	)
	broken := func(status hooksv1.ResponseStatus) *patchResponse {
		r := &patchResponse{Items: []hooksv1.GeneratePatchesResponseItem{{UID: "a\xffb"}}}
		r.Status, r.Message = status, "quota \xff used up"
		return r
	}
	for name, tt := range map[string]struct {
		response *patchResponse
		err      error
		code     int
		message  string
	}{
		"error":           {nil, errors.New("quota \xff used up"), http.StatusOK, "quota \uFFFD used up"},
		"broken refusal":  {broken(hooksv1.ResponseStatusFailure), nil, http.StatusOK, "quota \uFFFD used up"},
		"error with data": {broken(""), errors.New("quota \xff used up"), http.StatusOK, "quota \uFFFD used up"},
		"broken success":  {broken(hooksv1.ResponseStatusSuccess), nil, http.StatusInternalServerError, "cannot be encoded"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, extension.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
			if err := extension.Handle(s, capi.GeneratePatches, "h", func(context.Context, *patchRequest) (*patchResponse, error) { return tt.response, tt.err }); err != nil {
				t.Fatal(err)
			}
			w := post(s, hook.Path(capi.GeneratePatches.Definition().Name, "h"), "{}")
			var got patchResponse
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !utf8.Valid(w.Body.Bytes()) {
				t.Fatalf("%v: %q", err, w.Body)
			}
			if w.Code != tt.code || got.Status != hooksv1.ResponseStatusFailure || !strings.Contains(got.Message, tt.message) {
				t.Errorf("HTTP status %d, %+v", w.Code, got)
			}
		})
	}
}

// TestCallBelowPrefix calls a server that serves its hooks below a prefix.
func TestCallBelowPrefix(t *testing.T) {
	catalog := hook.NewCatalog()
	if err := capi.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	for prefix, base := range map[string]string{"": "", "/": "", "//": "", "hooks/of/mine": "/hooks/of/mine", "/hooks/": "/hooks"} {
		register := func(s *extension.Server) error { return handle(s, "h", answerNil) }
		s := hooktest.Start(t, extension.Options{PathPrefix: prefix}, register)
		if got, want := s.Server.Path(capi.BeforeClusterCreate, "h"), base+createPath; got != want {
			t.Errorf("prefix %q: the path is %s, want %s", prefix, got, want)
		}
		if u, err := url.Parse(s.URL); err != nil || u.Path != base {
			t.Errorf("prefix %q: the URL is %s (%v), want the path %q", prefix, s.URL, err, base)
			continue
		}
		if _, config, err := hooktest.Discover(t.Context(), catalog, hooktest.Config("e", s.URL, s.CA.PEM)); err != nil || len(config.Status.Handlers) != 1 {
			t.Errorf("prefix %q: discovery: %v, %+v", prefix, err, config)
		}
		if got := hooktest.Call(t, s.Server, capi.BeforeClusterCreate, "h", &request{}); got.Status != hooksv1.ResponseStatusSuccess {
			t.Errorf("prefix %q: got %+v", prefix, got)
		}
	}
}
