package capi

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// requests tells which provider of the process asks what of the API server: client-go
// counts requests too, but not whose they are.
var requests = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "slipway_plane_api_requests_total",
	Help: "Requests to the management API by provider, HTTP method and resource. A watch counts when it begins.",
}, []string{"provider", "method", "resource"})

func init() { metrics.Registry.MustRegister(requests) }

// countRequests counts what is sent with the configuration.
func countRequests(c *rest.Config, provider string) {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return countingTransport{provider, next} })
}

type countingTransport struct {
	provider string
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	requests.WithLabelValues(t.provider, r.Method, resource(r.URL.Path)).Inc()
	return t.next.RoundTrip(r)
}

// resource is what a path of the API names, as resource or resource/subresource;
// "" for discovery and the like.
func resource(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return ""
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}
