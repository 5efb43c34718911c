package lifecycle

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// proxy stands between a replica and an API server.
type proxy struct {
	effects *effects
	// namespace is all that the replica sees of the kinds that it watches. So
	// replicas of several tests can share an API server.
	namespace string
	upstream  *httputil.ReverseProxy
	server    *httptest.Server
}

// watched are the kinds that a replica lists in all namespaces.
var watched = []string{
	"/apis/cluster.x-k8s.io/v1beta2/clusters",
	"/apis/lifecycle.slipway.dev/v1alpha1/lifecyclepolicies", "/apis/lifecycle.slipway.dev/v1alpha1/lifecycleruns",
}

// startProxy forwards to the API server as the user of a configuration.
func startProxy(t *testing.T, config *rest.Config, namespace string, e *effects) *proxy {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{effects: e, namespace: namespace}
	quiet := log.New(io.Discard, "", 0)
	p.upstream = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target); p.narrow(r.Out.URL) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      quiet,
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.Config.ErrorLog = quiet
	p.server.StartTLS()
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

func (p *proxy) narrow(u *url.URL) {
	for _, path := range watched {
		if u.Path == path {
			group, resource := path[:strings.LastIndex(path, "/")], path[strings.LastIndex(path, "/"):]
			u.Path = group + "/namespaces/" + p.namespace + resource
		}
	}
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	life := p.effects.life.Load()
	effect, err := effectOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if effect == "" {
		p.upstream.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	if !p.effects.pass(life, effect, func() { p.upstream.ServeHTTP(answer, r) }) {
		panic(http.ErrAbortHandler)
	}
	for key, values := range answer.Header() {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// kubeconfig leads to the proxy.
func (p *proxy) kubeconfig(t *testing.T) []byte {
	t.Helper()
	data, err := judge.Kubeconfig(&rest.Config{Host: p.server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: certificateOf(p.server)}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func certificateOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
