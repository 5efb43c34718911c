package upgrade

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/bootstrap"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

const (
	// CordonAnnotation on a Node says that the agent cordoned it, and for which
	// version. It is written and removed together with spec.unschedulable, so a
	// crash never leaves one without the other.
	CordonAnnotation = "slipway.dev/cordoned-for-upgrade"

	kubeadmTimeout = 5 * time.Minute
	unitTimeout    = 2 * time.Minute
	// readyTimeout is how long the new kubelet may take until its Node is ready.
	readyTimeout  = 5 * time.Minute
	readyInterval = time.Second
	// undoTimeout bounds the uncordon after a failure.
	undoTimeout = 15 * time.Second
)

// Node is the host's own Node; *workload.Client implements it.
type Node interface {
	Get(ctx context.Context) (*corev1.Node, error)
	// SetUnschedulable writes spec.unschedulable and the annotation at once, and
	// fails with a conflict when node is not what the server has.
	SetUnschedulable(ctx context.Context, node *corev1.Node, unschedulable bool, annotation, value string) error
	Pods(ctx context.Context) ([]corev1.Pod, error)
	Evict(ctx context.Context, pod *corev1.Pod) error
	ServerVersion(ctx context.Context) (string, error)
	// ClusterConfiguration is kubeadm's document of that name.
	ClusterConfiguration(ctx context.Context) (string, error)
}

// Versions finds and selects installed versions; kubelet.Versions implements it.
type Versions interface {
	// Program returns the path of a program of the version.
	Program(ctx context.Context, version, program string) (string, error)
	// Offered reports whether PATH has the version already.
	Offered(ctx context.Context, version string) bool
}

// Upgrader upgrades the node on this host.
type Upgrader struct {
	Root     hostfs.Root
	Runner   command.Runner
	Versions Versions
	// Switch makes PATH offer a version and records what it offered before.
	Switch func(ctx context.Context, version string, progress operation.Progress) error
	// Connect reaches the Node with the kubelet's credential.
	Connect func() (Node, error)
	// ConnectLocal reaches the API server of this host itself, with the same credential.
	ConnectLocal func() (ControlPlane, error)
	// ConnectEtcd reaches the member that a manifest of this host is of.
	ConnectEtcd func(manifest *corev1.Pod) (Etcd, error)
	// HandOver has another host take the control-plane address before the API server here
	// stops, if this host holds it.
	HandOver func(ctx context.Context)
	// CRISocket of the container runtime, for kubeadm.
	CRISocket string
	// DrainTimeout bounds how long pods may hold the upgrade up.
	DrainTimeout time.Duration
	// Now is the clock, Sleep its wait.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
	Log   *slog.Logger
}

// Upgrade brings the node to the version. It may be repeated at any point.
func (u Upgrader) Upgrade(ctx context.Context, version string, progress operation.Progress) error {
	if u.hasControlPlane(progress.State()) {
		return u.upgradeControlPlane(ctx, version, progress)
	}
	if err := operation.Step(progress, "upgrade: mend", u.mendWorker); err != nil {
		return err
	}
	node, done, err := u.check(ctx, version, progress)
	if err != nil || done {
		return err
	}
	if err := u.prepare(ctx, node, version, progress); err != nil {
		return u.giveBack(ctx, node, err)
	}
	var restarted time.Time
	for _, s := range []struct {
		name string
		run  func() error
	}{
		{"upgrade: switch", func() error { return u.Switch(ctx, version, progress) }},
		{"upgrade: kubelet", func() error { restarted = u.Now(); return u.restart(ctx) }},
		{"upgrade: ready", func() error { return u.ready(ctx, node, version, restarted) }},
		{"upgrade: finish", u.finishWorker},
		{"upgrade: uncordon", func() error { return u.uncordon(ctx, node) }},
	} {
		if err := operation.Step(progress, s.name, s.run); err != nil {
			return err
		}
	}
	u.Log.Info("the node is upgraded", "version", version)
	return nil
}

// check refuses what must not be upgraded, before anything is changed. done says
// that the node is of the version already.
func (u Upgrader) check(ctx context.Context, version string, progress operation.Progress) (node Node, done bool, err error) {
	err = operation.Step(progress, "upgrade: check", func() error {
		if _, err := u.Versions.Program(ctx, version, "kubeadm"); err != nil {
			return err
		}
		if node, err = u.Connect(); err != nil {
			return operation.Failf(operation.ReasonNodeUnreachable, operation.RetryAfterReset, err, "reach the Node of this host")
		}
		current, err := node.Get(ctx)
		if err != nil {
			return operation.Unreachable(err, "read the Node of this host")
		}
		if done = u.isDone(ctx, current, version); done {
			return nil
		}
		server, err := node.ServerVersion(ctx)
		if err != nil {
			return operation.Unreachable(err, "ask the API server for its version")
		}
		if err := checkSkew(current.Status.NodeInfo.KubeletVersion, version, server); err != nil {
			return err
		}
		// What kubeadm will not do is known before a pod has to go.
		return u.kubeadm(ctx, version, progress, "phase", "preflight")
	})
	return node, done, err
}

// isDone reports whether nothing is left to do. The last step takes the mark off.
func (u Upgrader) isDone(ctx context.Context, node *corev1.Node, version string) bool {
	_, marked := node.Annotations[CordonAnnotation]
	return !marked && node.Status.NodeInfo.KubeletVersion == version && u.Versions.Offered(ctx, version)
}

// prepare does all that leaves the old kubelet running.
func (u Upgrader) prepare(ctx context.Context, node Node, version string, progress operation.Progress) error {
	for _, s := range []struct {
		name string
		run  func() error
	}{
		{"upgrade: cordon", func() error { return u.cordon(ctx, node, version) }},
		{"upgrade: drain", func() error {
			return u.drain(ctx, node, func(waiting string) error {
				return progress.Update(func(s *journal.State) { s.Operation.Message = waiting })
			})
		}},
		{"upgrade: keep", u.keepWorker},
		{"upgrade: kubeadm", func() error { return u.kubeadm(ctx, version, progress) }},
	} {
		if err := operation.Step(progress, s.name, s.run); err != nil {
			return err
		}
	}
	return nil
}

// giveBack takes the cordon off after a failure: the node serves on with its old
// version. Another try cordons again. What is no failure of the upgrade, such as
// another operation or a control plane that is away, changes nothing.
func (u Upgrader) giveBack(ctx context.Context, node Node, cause error) error {
	failed := operation.AsError(cause)
	if failed.Retry == operation.RetryLater || ctx.Err() != nil {
		return cause
	}
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	if err := u.uncordon(ctx, node); err != nil {
		failed.Message += "; the Node is left cordoned: uncordon it with kubectl"
		failed.Err = errors.Join(failed.Err, err)
	}
	return failed
}

// cordon leaves a Node that somebody else has cordoned as it is, so that the end of
// the upgrade does not undo theirs.
func (u Upgrader) cordon(ctx context.Context, node Node, version string) error {
	return u.change(ctx, node, "cordon the Node", func(current *corev1.Node) error {
		if current.Spec.Unschedulable {
			return nil
		}
		return node.SetUnschedulable(ctx, current, true, CordonAnnotation, version)
	})
}

func (u Upgrader) uncordon(ctx context.Context, node Node) error {
	return u.change(ctx, node, "uncordon the Node", func(current *corev1.Node) error {
		if _, ours := current.Annotations[CordonAnnotation]; !ours {
			return nil
		}
		return node.SetUnschedulable(ctx, current, false, CordonAnnotation, "")
	})
}

// change repeats a write on a fresh read until nobody else came in between.
func (u Upgrader) change(ctx context.Context, node Node, what string, write func(*corev1.Node) error) error {
	for {
		current, err := node.Get(ctx)
		if err == nil {
			err = write(current)
		}
		if !apierrors.IsConflict(err) {
			return operation.Unreachable(err, what)
		}
		if err := u.Sleep(ctx, readyInterval); err != nil {
			return err
		}
	}
}

// kubeadm writes the kubelet's configuration of the new version, or runs one phase
// of that.
func (u Upgrader) kubeadm(ctx context.Context, version string, progress operation.Progress, phase ...string) error {
	return u.kubeadmWithin(ctx, kubeadmTimeout, version, progress, phase...)
}

func (u Upgrader) kubeadmWithin(ctx context.Context, timeout time.Duration, version string, progress operation.Progress, more ...string) error {
	args := append([]string{"upgrade", "node"}, more...)
	if ignored := progress.State().IgnoredChecks; len(ignored) > 0 {
		args = append(args, "--ignore-preflight-errors="+strings.Join(ignored, ","))
	}
	return u.runKubeadm(ctx, timeout, version, args...)
}

func (u Upgrader) runKubeadm(ctx context.Context, timeout time.Duration, version string, args ...string) error {
	program, err := u.Versions.Program(ctx, version, "kubeadm")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := u.Runner.Run(ctx, program, args...); err != nil {
		return operation.Failf(operation.ReasonKubeadmFailed, operation.RetryAfterReset, err,
			"kubeadm %s, of which the output is in %s on the host", strings.Join(args, " "), bootstrap.LogFile)
	}
	return nil
}

func (u Upgrader) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, unitTimeout)
	defer cancel()
	for _, args := range [][]string{{"daemon-reload"}, {"restart", "kubelet"}} {
		if _, err := u.Runner.Run(ctx, "systemctl", args...); err != nil {
			return operation.Failf(operation.ReasonStepFailed, operation.RetryAfterReset, err, "systemctl %s", args[0])
		}
	}
	return nil
}

// ready waits until the kubelet that was started since reports the version and a
// ready Node. Both clocks are this host's.
func (u Upgrader) ready(ctx context.Context, node interface {
	Get(ctx context.Context) (*corev1.Node, error)
}, version string, since time.Time) error {
	return u.await(ctx, readyTimeout, func() error {
		current, err := node.Get(ctx)
		if err != nil {
			// The control plane may be replaced at the same time.
			return operation.Unreachable(err, "read the Node of this host")
		}
		return notReady(current, version, since)
	})
}

func notReady(node *corev1.Node, version string, since time.Time) error {
	no := func(format string, args ...any) error {
		return &operation.Error{Reason: operation.ReasonNodeNotReady, Retry: operation.RetryAfterReset,
			Message: fmt.Sprintf(format, args...) + "; see the log of the kubelet on the host"}
	}
	if got := node.Status.NodeInfo.KubeletVersion; got != version {
		return no("the kubelet was restarted but still reports %s, not %s", got, version)
	}
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if c.Status == corev1.ConditionTrue && !c.LastHeartbeatTime.Time.Before(since.Truncate(time.Second)) {
			return nil
		}
		return no("the kubelet of %s does not report a ready Node: %.200s", version, c.Message)
	}
	return no("the kubelet of %s does not report whether its Node is ready", version)
}
