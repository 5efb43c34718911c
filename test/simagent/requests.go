package simagent

import (
	"net/http"
	"strings"
	"sync"
)

// Requests counts requests by method and resource. The zero value counts none.
type Requests struct {
	mu     sync.Mutex
	counts map[string]int
}

// Count returns a transport that counts what passes it.
func (r *Requests) Count(next http.RoundTripper) http.RoundTripper { return counting{r, next} }

// Counts returns how many requests of each method and resource were sent, under
// keys such as "PATCH hosts/status". Watches count as WATCH.
func (r *Requests) Counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	copied := make(map[string]int, len(r.counts))
	for key, n := range r.counts {
		copied[key] = n
	}
	return copied
}

type counting struct {
	requests *Requests
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	method := request.Method
	if request.URL.Query().Get("watch") == "true" {
		method = "WATCH"
	}
	c.requests.mu.Lock()
	if c.requests.counts == nil {
		c.requests.counts = map[string]int{}
	}
	c.requests.counts[method+" "+Resource(request.URL.Path)]++
	c.requests.mu.Unlock()
	return c.next.RoundTrip(request)
}

// Resource is the resource, with its subresource, that the path of a request to an
// API server names.
func Resource(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return path
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}
