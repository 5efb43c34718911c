package up

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/enroll"
	"github.com/slipway-dev/slipway/plane/internal/apiserver"
	"github.com/slipway-dev/slipway/plane/internal/component"
	"github.com/slipway-dev/slipway/plane/internal/pki"
	"github.com/slipway-dev/slipway/plane/internal/planeclient"
	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/serve"
)

// LockFDEnv is the environment variable in which `slipway serve` finds the file
// descriptor of the command's lock, to close it once its own lock is taken. A plane without
// it was not started by `slipway up`.
const LockFDEnv = "SLIPWAY_COMMAND_LOCK_FD"

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
	ctx, cancel := context.WithTimeoutCause(ctx, planeTimeout, fmt.Errorf("not ready after %s; see %s", planeTimeout, s.Instance.PlaneLog()))
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

// stopOutdated ends a plane that listens for other machines elsewhere than was chosen, so that
// it is started anew. Its hosts and their clusters go on meanwhile.
func (s *Session) stopOutdated(ctx context.Context, step *progress.Step) error {
	record := serve.Current(s.Instance.Dir)
	if record == nil || !outdated(record, s.Instance.Config) {
		return nil
	}
	step.Waitf("stopping it, to listen elsewhere")
	if err := serve.Stop(ctx, s.Instance.Dir); err != nil {
		return err
	}
	// The plane gives its lock back first, and its sockets with its process.
	return poll(ctx, func() (bool, error) {
		err := s.checkPort(ctx)
		if errors.Is(err, unix.EADDRINUSE) {
			step.Waitf("%v", err)
			return false, nil
		}
		return err == nil, err
	})
}

// ensureRunning starts the plane unless one runs, and returns what is closed when that one
// ends; nil when it is not ours.
func (s *Session) ensureRunning() (exited <-chan struct{}, _ error) {
	_, running, err := serve.Running(s.Instance.Dir)
	if err != nil || running {
		return nil, err
	}
	return s.spawn()
}

// spawn starts the plane in a session of its own, so that Ctrl-C here does not
// reach it, and returns what is closed when it ends.
func (s *Session) spawn() (<-chan struct{}, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(s.Instance.PlaneLog(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// What the last plane left must not be taken for this one's.
	if err := os.Remove(s.Instance.Path("status.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	cmd := exec.Command(self, "serve", "--state-dir", s.Instance.Dir)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	// Should this command die now, the next one waits until it can see the plane.
	cmd.ExtraFiles = []*os.File{s.Lock.File()}
	cmd.Env = append(os.Environ(), LockFDEnv+"=3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the plane: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	return exited, nil
}

// waitForPlane starts the plane and shows its components until all are ready. One that
// runs already may end meanwhile, and then it is started.
func (s *Session) waitForPlane(ctx context.Context, step *progress.Step) error {
	shown := map[string]*progress.Step{}
	letIn := s.withoutHosts()
	var exited <-chan struct{}
	return poll(ctx, func() (bool, error) {
		if exited == nil {
			var err error
			if exited, err = s.ensureRunning(); err != nil {
				return false, err
			}
		}
		status, err := serve.ReadStatus(s.Instance.Dir)
		if err == nil {
			showComponents(step, shown, status.Components)
			// The earlier the agents' token is known, the less they back off.
			letIn = letIn || answers(status.Components) && s.ensureBootstrapToken(ctx) == nil
		}
		if err == nil && status.Ready && (exited != nil || s.serves(ctx)) {
			step.Donef("serving at %s", status.Server)
			return true, nil
		}
		select {
		case <-exited:
			return false, errors.New(s.lastWords(status))
		default:
		}
		step.Waitf("starting")
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

func showComponents(parent *progress.Step, shown map[string]*progress.Step, components []serve.ComponentStatus) {
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
func reason(c serve.ComponentStatus) string {
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
func answers(components []serve.ComponentStatus) bool {
	return slices.ContainsFunc(components, func(c serve.ComponentStatus) bool {
		return c.Name == apiserver.Name && c.Phase == component.PhaseReady
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

// lastWords is why the plane ended: its own word for it, or the end of its log.
func (s *Session) lastWords(status serve.Status) string {
	if status.Error != "" {
		return status.Error
	}
	log, _ := os.ReadFile(s.Instance.PlaneLog())
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	return fmt.Sprintf("ended at once: %s (log: %s)", bytes.TrimPrefix(lines[len(lines)-1], []byte("Error: ")), s.Instance.PlaneLog())
}

// authority reads the certificates of the plane, which it makes first of all.
func (s *Session) authority(ctx context.Context, step *progress.Step) ([]byte, error) {
	authority := pki.New(pki.Options{Dir: s.Instance.Path("pki")})
	var ca []byte
	err := poll(ctx, func() (bool, error) {
		var err error
		if ca, err = authority.CABundle(); errors.Is(err, fs.ErrNotExist) {
			step.Waitf("waiting for the plane's certificates")
			return false, nil
		}
		return err == nil, err
	})
	return ca, err
}
