package serve

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
	lifecycleNamespace = "slipway-lifecycle-system"
	lifecycleService   = "slipway-lifecycle-extension-service"
)

// lifecycleProvider names the engine as clusterctl does.
func lifecycleProvider() manifests.Provider {
	return manifests.Provider{
		Name: "slipway-lifecycle", Type: clusterctlv1.RuntimeExtensionProviderType,
		Namespace: lifecycleNamespace, Version: version.Version,
	}
}

// lifecycleManifests are what is installed for the engine.
func lifecycleManifests() manifests.Extra {
	return manifests.Extra{
		Provider: lifecycleProvider(), Files: config.Lifecycle,
		WebhookURL: "https://" + webhookHost + ":" + webhookPort,
	}
}

// lifecycleClient is who the program is for the API server: what it is in a Pod.
func lifecycleClient() pki.Client {
	return capi.ServiceAccount(lifecycleProvider(), "slipway-lifecycle")
}

// lifecycleServer is the serving certificate of the program.
func lifecycleServer() pki.Server {
	return pki.Server{Name: "slipway-lifecycle", DNSNames: []string{lifecycleService + "." + lifecycleNamespace + ".svc"}}
}

// lifecycleMetrics serves the program's metrics at any path.
func lifecycleMetrics() http.Handler {
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.URL.Path = "http", metricsAddress, "/metrics"
	}}
}

// LifecycleServices are the addresses, in the namespace of the plane, of what an
// ExtensionConfig names by its Service.
func LifecycleServices() map[string]string {
	return map[string]string{lifecycleService + "." + lifecycleNamespace + ".svc:443": extensionAddress}
}
