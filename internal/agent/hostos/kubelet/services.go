package kubelet

import (
	"context"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
)

// units are those that a node needs.
var units = []string{"kubelet", "containerd"}

// activeUnit is the state of a unit that runs.
const activeUnit = "active"

// Services reads how the units of a node are. It remembers since when one does not run.
type Services struct {
	Runner command.Runner
	// Now is the clock.
	Now func() time.Time

	mu   sync.Mutex
	down map[string]metav1.Time
}

// Read asks the service manager; none where there is none, or where it does not answer.
func (s *Services) Read(ctx context.Context) []infrav1.HostService {
	if !s.Runner.Has("systemctl") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	// It has an exit code for a unit that does not run, and prints a line for each.
	out, _ := s.Runner.Run(ctx, "systemctl", append([]string{"is-active"}, units...)...)
	states := strings.Fields(string(out))
	if len(states) != len(units) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == nil {
		s.down = map[string]metav1.Time{}
	}
	var services []infrav1.HostService
	for i, name := range units {
		switch _, known := s.down[name]; {
		case states[i] == activeUnit:
			delete(s.down, name)
		case !known:
			s.down[name] = metav1.NewTime(s.Now().Truncate(time.Second))
		}
		services = append(services, infrav1.HostService{Name: name, State: states[i], Since: s.down[name]})
	}
	return services
}
