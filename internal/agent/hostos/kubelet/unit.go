package kubelet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
)

// Error is a state of the host with which an operation cannot go on; operation.AsError takes the
// reason and the message, which names the remedy. Permanent says that the same operation fails again.
type Error struct {
	Reason, Message string
	Permanent       bool
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// OperationReason returns the reason of the failed operation, and whether it fails again.
func (e *Error) OperationReason() (string, bool) { return e.Reason, e.Permanent }

// Unit is what systemd does with kubelet.service at boot.
type Unit struct{ Runner command.Runner }

// StartsAtBoot is false when systemd was told not to start the kubelet. kubeadm only
// warns of that, and the node does not come back after a power cut.
func (u Unit) StartsAtBoot(ctx context.Context) (bool, error) {
	if !u.Runner.Has("systemctl") {
		return true, nil
	}
	// It fails, too, for what it answers.
	out, _ := u.Runner.Run(ctx, "systemctl", "is-enabled", "kubelet")
	switch state := strings.TrimSpace(string(out)); state {
	case "disabled", "enabled-runtime":
		return false, nil
	case "masked", "masked-runtime":
		return false, &Error{Reason: "KubeletMasked",
			Message: "kubelet.service is masked, so systemd never starts the kubelet; run `systemctl unmask kubelet` on the host"}
	default:
		return true, ctx.Err()
	}
}

// Enable has systemd start the kubelet at each boot; Disable takes that back.
func (u Unit) Enable(ctx context.Context) error {
	_, err := u.Runner.Run(ctx, "systemctl", "enable", "kubelet")
	return err
}

// Disable is the opposite of Enable.
func (u Unit) Disable(ctx context.Context) error {
	_, err := u.Runner.Run(ctx, "systemctl", "disable", "kubelet")
	return err
}

// units are those that a node needs.
var units = []string{"kubelet", "containerd"}

// activeUnit is the state of a unit that runs.
const activeUnit = "active"

// steady is how long a unit runs before it is no longer one that ends again and again.
const steady = 30 * time.Second

// Services reads how the units of a node are. It remembers since when one does not run: what ends soon after
// each start has not run since before the first of them.
type Services struct {
	Runner command.Runner
	// Now is the clock.
	Now func() time.Time

	mu sync.Mutex
	// down is when a unit ended, and up when it was seen to run after that.
	down map[string]metav1.Time
	up   map[string]time.Time
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
		s.down, s.up = map[string]metav1.Time{}, map[string]time.Time{}
	}
	now := s.Now()
	var services []infrav1.HostService
	for i, name := range units {
		service := infrav1.HostService{Name: name, State: states[i]}
		_, ended := s.down[name]
		up, again := s.up[name]
		switch runs := states[i] == activeUnit; {
		case runs && ended && !again:
			s.up[name] = now
		case runs && again && now.Sub(up) >= steady:
			delete(s.down, name)
			delete(s.up, name)
		case !runs && !ended:
			s.down[name] = metav1.NewTime(now.Truncate(time.Second))
		}
		if states[i] != activeUnit {
			delete(s.up, name)
			service.Since = s.down[name]
		}
		services = append(services, service)
	}
	return services
}

// Cache keeps the version each program told, for as long as its file is the
// same: starting one takes up to half a second on a busy host. The zero value is
// ready to use; a nil Cache keeps nothing.
type Cache struct {
	mu      sync.Mutex
	answers map[string]string
}

// answer returns what the file of the program answered before, or asks.
func (c *Cache) answer(program string, ask func() string) string {
	file, known := identify(program)
	if c == nil || !known {
		return ask()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer := c.answers[program+file]; answer != "" {
		return answer
	}
	answer := ask()
	if c.answers == nil {
		c.answers = map[string]string{}
	}
	c.answers[program+file] = answer
	return answer
}

// identify names the file that PATH offers for a program now.
func identify(program string) (string, bool) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", false
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", false
	}
	return fmt.Sprintf(" %s %d %d", path, info.Size(), info.ModTime().UnixNano()), true
}
