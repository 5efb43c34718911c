package capi

import (
	"context"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// mount is the webhook server as one manager sees it: everything the manager
// registers is served below a prefix. Managers cannot share a server as it is,
// since each has a /convert with a scheme of its own, and each would start it.
type mount struct {
	server webhook.Server
	prefix string
	mux    *http.ServeMux
}

func newMount(server webhook.Server, name string) *mount {
	return &mount{server: server, prefix: "/" + name, mux: http.NewServeMux()}
}

var _ webhook.Server = (*mount)(nil)

// NeedLeaderElection implements webhook.Server.
func (*mount) NeedLeaderElection() bool { return false }

// Register implements webhook.Server.
func (m *mount) Register(path string, hook http.Handler) {
	m.mux.Handle(path, hook)
	m.server.Register(m.prefix+path, http.StripPrefix(m.prefix, hook))
}

// Start only waits: the shared server is run by the Component.
func (*mount) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// StartedChecker implements webhook.Server.
func (m *mount) StartedChecker() healthz.Checker { return m.server.StartedChecker() }

// WebhookMux implements webhook.Server; builders look for paths taken in it.
func (m *mount) WebhookMux() *http.ServeMux { return m.mux }
