package console

import (
	"sync"
	"time"

	"k8s.io/client-go/discovery"

	"github.com/slipway-dev/slipway/internal/console/view"
	"github.com/slipway-dev/slipway/internal/version"
)

// serverVersion remembers for a while which version the API server of the management cluster has.
type serverVersion struct {
	mu      sync.Mutex
	version string
	at      time.Time
}

// of is empty for a server that does not say it.
func (v *serverVersion) of(s *server) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.now().Sub(v.at) < reviewAgain {
		return v.version
	}
	v.version, v.at = "", s.now()
	if d, err := discovery.NewDiscoveryClientForConfig(s.Rest); err == nil {
		if info, err := d.ServerVersion(); err == nil {
			v.version = info.GitVersion
		}
	}
	return v.version
}

func (s *server) versions(v *visit) (string, any, error) {
	return "Versions", view.VersionsOf(v.o, v.states, []view.Component{
		{Name: "Kubernetes API server", Version: s.serverVersion.of(s)}, {Name: "Slipway, this console", Version: version.Version},
	}), nil
}
