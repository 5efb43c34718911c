package hooktest

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/internal/wire"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// Extension is an extension that serves on a loopback port.
type Extension struct {
	// URL is its address.
	URL string
	// CA signed its certificate.
	CA *CA
	// Server is what serves.
	Server *extension.Server

	cancel context.CancelFunc
	done   chan error
}

// Start serves an extension over TLS until the test ends, on a free port of
// loopback unless options have an address. Certificates are added to options
// unless it has some, and a logger that writes into the output of the test; register
// adds the handlers.
func Start(t testing.TB, options extension.Options, register func(*extension.Server) error) *Extension {
	t.Helper()
	ca := NewCA(t)
	if options.CertFile == "" {
		options.CertFile, options.KeyFile = ca.Files(t.TempDir(), "server")
	}
	if options.Logger.IsZero() {
		options.Logger = testLogger(t)
	}
	server, err := extension.New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := register(server); err != nil {
		t.Fatal(err)
	}
	address := options.Address
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	e := &Extension{URL: "https://" + listener.Addr().String() + prefixOf(server), CA: ca, Server: server, cancel: cancel, done: make(chan error, 1)}
	go func() { e.done <- server.Serve(ctx, listener) }()
	t.Cleanup(func() { _ = e.Stop() })
	return e
}

// prefixOf is the path prefix of a server as it serves it.
func prefixOf(server *extension.Server) string {
	return strings.TrimSuffix(server.Path(capi.Discovery, ""), hook.Path(capi.Discovery.Definition().Name, ""))
}

// Stop ends the extension and returns the error of Serve. Stopping twice is no error.
func (e *Extension) Stop() error {
	e.cancel()
	err, ok := <-e.done
	if ok {
		close(e.done)
	}
	return err
}

// Config returns an ExtensionConfig for an extension at url, not discovered yet.
func Config(name, url string, ca []byte) *runtimev1.ExtensionConfig {
	return &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1, ResourceVersion: "1"},
		Spec:       runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: url, CABundle: ca}},
	}
}

// Handler returns config with one more handler in its status, as discovery would
// write it.
func Handler(config *runtimev1.ExtensionConfig, h hook.Any, name string, policy runtimev1.FailurePolicy, timeoutSeconds int32) *runtimev1.ExtensionConfig {
	definition := h.Definition().Name
	config = config.DeepCopy()
	config.Status.Handlers = append(config.Status.Handlers, runtimev1.ExtensionHandler{
		Name:           hook.QualifiedName(name, config.Name),
		RequestHook:    runtimev1.GroupVersionHook{APIVersion: hook.APIVersion(definition), Hook: definition.Hook},
		FailurePolicy:  policy,
		TimeoutSeconds: timeoutSeconds,
	})
	return config
}

// Entry returns config as a registry takes it. It fails the test if a selector of
// config cannot be read.
func Entry(t testing.TB, config *runtimev1.ExtensionConfig) registry.Entry {
	t.Helper()
	entry, err := registry.FromExtensionConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// Call sends request to the handler name of server and returns its response, all
// in memory. It fails the test if the HTTP status is not 200, as it is on a server
// with ClientCAFile: Call has no certificate. Test such a server over TLS, by Start.
func Call[Q, R any](t testing.TB, server *extension.Server, h hook.Hook[Q, R], name string, request *Q) *R {
	t.Helper()
	definition := h.Definition()
	object := any(request).(runtime.Object)
	body, err := wire.Encode(object)
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	server.Handler().ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, server.Path(h, name), bytes.NewReader(body)))
	if recorder.Code == http.StatusUnauthorized {
		t.Fatalf("handler %s: HTTP status %d: %s\nhooktest.Call has no client certificate: leave ClientCAFile out, or call over TLS with Start and Discover", name, recorder.Code, recorder.Body)
	}
	if recorder.Code != http.StatusOK {
		t.Fatalf("handler %s: HTTP status %d: %s", name, recorder.Code, recorder.Body)
	}
	response := definition.NewResponse()
	if err := wire.Decode(recorder.Body.Bytes(), response, definition.ResponseKind); err != nil {
		t.Fatal(err)
	}
	return any(response).(*R)
}
