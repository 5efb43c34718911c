package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/enroll"
	"github.com/slipway-dev/slipway/plane/internal/component"
	"github.com/slipway-dev/slipway/plane/internal/pki"
	"github.com/slipway-dev/slipway/plane/internal/planeclient"
	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// planeTimeout is how long a plane may take to be ready.
const planeTimeout = 5 * time.Minute

// servesTimeout is how long a plane that runs may take for one answer; it is asked again.
const servesTimeout = 5 * time.Second

// startPlane runs `slipway serve` in the background, unless it runs already, and
// shows its components until all are ready.
func (s *Session) startPlane(ctx context.Context, step *progress.Step) error {
	if err := s.Instance.Network().Ensure(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, planeTimeout, fmt.Errorf("not ready after %s; see %s", planeTimeout, s.log()))
	defer cancel()
	if err := s.stopOutdated(ctx, step); err != nil {
		return err
	}
	if err := s.waitForPlane(ctx, step); err != nil {
		return err
	}
	var err error
	if s.client, err = planeclient.New(s.Instance); err != nil {
		return err
	}
	s.nodes = planeclient.WorkloadNodes(s.Instance, s.client)
	return nil
}

// waitForPlane starts the plane and shows its components until all are ready. One that
// runs already may end meanwhile, and then it is started. One that crashes is waited for, since
// its supervisor or systemd starts it again.
func (s *Session) waitForPlane(ctx context.Context, step *progress.Step) error {
	shown := map[string]*progress.Step{}
	letIn := s.withoutHosts()
	before, err := statedir.ReadCrashes(s.Instance.Dir)
	if err != nil {
		return err
	}
	s.crashes = before.Count
	var exited <-chan struct{}
	var crashed int
	var again time.Time
	return poll(ctx, pollInterval, func() (bool, error) {
		if time.Now().Before(again) {
			return false, nil
		}
		if exited == nil {
			var err error
			if exited, err = s.ensureRunning(ctx); err != nil {
				return false, err
			}
		}
		current := statedir.Current(s.Instance.Dir)
		if current != nil {
			showComponents(step, shown, current.Components)
			// The earlier the agents' token is known, the less they back off.
			letIn = letIn || answers(current.Components) && s.ensureBootstrapToken(ctx) == nil
		}
		if current != nil && current.Ready && (exited != nil || s.serves(ctx)) {
			step.Donef("serving at %s", current.Server)
			return true, nil
		}
		status, _ := statedir.ReadStatus(s.Instance.Dir) // of a plane that has ended, for its error
		err = s.ended(ctx, exited, status)
		var crash *CrashError
		if errors.As(err, &crash) && crashed < crashes {
			step.Waitf("%v", crash)
			crashed++
			if s.Service != nil {
				again = time.Now().Add(servicePause)
			}
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if crashed == 0 || current != nil {
			step.Waitf("starting")
		}
		return false, nil
	})
}

// serves asks a plane that is not ours whether it is there: of one that was killed a moment
// ago the status still says that it is ready, and its lock is held until the kernel is done
// with it.
func (s *Session) serves(ctx context.Context) bool {
	c, err := planeclient.New(s.Instance)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, servesTimeout)
	defer cancel()
	return c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &corev1.Namespace{}) == nil
}

func showComponents(parent *progress.Step, shown map[string]*progress.Step, components []statedir.ComponentStatus) {
	for _, c := range components {
		step, ok := shown[c.Name]
		if !ok {
			step = parent.Step(c.Name)
			shown[c.Name] = step
		}
		if c.Phase == component.PhaseReady {
			step.Donef("")
		} else {
			step.Waitf("%s", reason(c))
		}
	}
}

// reason why a component is not ready. Of a list of causes the first will do.
func reason(c statedir.ComponentStatus) string {
	if c.Reason == "" {
		return string(c.Phase)
	}
	causes := strings.Split(c.Reason, ", ")
	if len(causes) == 1 {
		return c.Reason
	}
	return fmt.Sprintf("%s and %d more", causes[0], len(causes)-1)
}

// answers reports whether the API server is ready, long before all of the plane is.
func answers(components []statedir.ComponentStatus) bool {
	return slices.ContainsFunc(components, func(c statedir.ComponentStatus) bool {
		return c.Name == statedir.APIServer && c.Phase == component.PhaseReady
	})
}

// ensureBootstrapToken makes the token of this command good, for the local hosts alone, and
// ends those of commands that were interrupted.
func (s *Session) ensureBootstrapToken(ctx context.Context) error {
	token, err := s.token()
	if err != nil {
		return err
	}
	c, err := planeclient.New(s.Instance)
	if err != nil {
		return err
	}
	hosts, err := s.hostNames(ctx)
	if err != nil {
		return err
	}
	if len(hosts) == 0 {
		return enroll.EnsureSigner(ctx, c, Namespace)
	}
	err = enroll.Ensure(ctx, c, enroll.Token{Value: token, Namespace: Namespace, Hosts: hosts, Uses: len(hosts), Life: tokenLife, Local: true})
	if err != nil {
		return err
	}
	return enroll.EndLocal(ctx, c, token)
}

// authority reads the certificates of the plane, which it makes first of all.
func (s *Session) authority(ctx context.Context, step *progress.Step) ([]byte, error) {
	authority := pki.New(pki.Options{Dir: s.Instance.Path("pki")})
	var ca []byte
	err := poll(ctx, pollInterval, func() (bool, error) {
		var err error
		if ca, err = authority.CABundle(); errors.Is(err, fs.ErrNotExist) {
			step.Waitf("waiting for the plane's certificates")
			return false, nil
		}
		return err == nil, err
	})
	return ca, err
}
