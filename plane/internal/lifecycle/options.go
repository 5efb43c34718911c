package lifecycle

import (
	"net/http"
	"net/http/httputil"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/version"
	"github.com/slipway-dev/slipway/plane/internal/capi"
	"github.com/slipway-dev/slipway/plane/internal/manifests"
	"github.com/slipway-dev/slipway/plane/internal/pki"
)

// Addresses of the program, on loopback of the plane's namespace.
const (
	extensionAddress = "127.0.0.1:9543"
	webhookHost      = "127.0.0.1"
	webhookPort      = "9544"
	metricsAddress   = "127.0.0.1:9545"
	healthAddress    = "127.0.0.1:9546"
)

// The program's Service in a management cluster. The plane has none, and connects
// to the program itself.
const (
	namespace = "slipway-lifecycle-system"
	service   = "slipway-lifecycle-extension-service"
)

// Provider names the engine as clusterctl does.
func Provider() manifests.Provider {
	return manifests.Provider{
		Name: "slipway-lifecycle", Type: clusterctlv1.RuntimeExtensionProviderType,
		Namespace: namespace, Version: version.Version,
	}
}

// Manifests are what is installed for the engine.
func Manifests() manifests.Extra {
	return manifests.Extra{
		Provider: Provider(), Files: config.Lifecycle,
		WebhookURL: "https://" + webhookHost + ":" + webhookPort,
	}
}

// Client is who the program is for the API server: what it is in a Pod.
func Client() pki.Client { return capi.ServiceAccount(Provider(), "slipway-lifecycle") }

// Server is the serving certificate of the program.
func Server() pki.Server {
	return pki.Server{Name: "slipway-lifecycle", DNSNames: []string{service + "." + namespace + ".svc"}}
}

// Metrics serves the program's metrics at any path.
func Metrics() http.Handler {
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.URL.Path = "http", metricsAddress, "/metrics"
	}}
}

// Services are the addresses, in the namespace of the plane, of what an
// ExtensionConfig names by its Service.
func Services() map[string]string {
	return map[string]string{service + "." + namespace + ".svc:443": extensionAddress}
}
