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

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/bootstrap"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

const (
	// CordonAnnotation on a Node says that the agent cordoned it, and for what: a version, or a
	// reboot. It is written and removed together with spec.unschedulable, so a crash never
	// leaves one without the other.
	CordonAnnotation = "slipway.dev/cordoned-for"

	kubeadmTimeout = 5 * time.Minute
	unitTimeout    = 2 * time.Minute
	// readyTimeout is how long a new kubelet may take until its Node is ready or static pods run (it pulls no image:
	// kubeadm's preflight has), and a new etcd, which reads its whole database first, until all are healthy.
	readyTimeout  = 5 * time.Minute
	readyInterval = time.Second
	// mostEnds is how often a kubelet may end in that time.
	mostEnds = 3
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
	// Links are where the programs on PATH point to, by name.
	Links() (map[string]string, error)
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
	// DrainTimeout bounds how long pods may hold an upgrade or a reboot up.
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
	if err := u.change(ctx, node, version, progress); err != nil {
		return u.giveBack(ctx, node, progress, err)
	}
	for _, s := range []struct {
		name string
		run  func() error
	}{
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
	if err != nil || done || u.begun() {
		return node, done, err
	}
	return node, false, operation.Step(progress, "upgrade: try", func() error { return u.tryKubelet(ctx, version) })
}

// isDone reports whether nothing is left to do. The last step takes the mark off.
func (u Upgrader) isDone(ctx context.Context, node *corev1.Node, version string) bool {
	_, marked := node.Annotations[CordonAnnotation]
	return !marked && node.Status.NodeInfo.KubeletVersion == version && u.Versions.Offered(ctx, version)
}

// change does all from the cordon to a ready Node, and what it does can be taken back.
func (u Upgrader) change(ctx context.Context, node Node, version string, progress operation.Progress) error {
	var restarted time.Time
	for _, s := range []struct {
		name string
		run  func() error
	}{
		{"upgrade: cordon", func() error { return u.cordon(ctx, node, version) }},
		{"upgrade: drain", func() error {
			return u.drain(ctx, node, progress)
		}},
		{"upgrade: keep", func() error { return u.keepWorker(ctx, node) }},
		{"upgrade: kubeadm", func() error { return u.kubeadm(ctx, version, progress) }},
		{"upgrade: switch", func() error { return u.Switch(ctx, version, progress) }},
		{"upgrade: kubelet", func() error { restarted = u.Now(); return u.restart(ctx) }},
		{"upgrade: ready", func() error { return u.ready(ctx, node, version, restarted) }},
	} {
		if err := operation.Step(progress, s.name, s.run); err != nil {
			return err
		}
	}
	return nil
}

// giveBack takes a failed upgrade back: the node serves on with its old version. What is no
// failure of the upgrade, such as another operation or a control plane that is away, changes
// nothing.
func (u Upgrader) giveBack(ctx context.Context, node Node, progress operation.Progress, cause error) error {
	failed := operation.AsError(cause)
	if failed.Retry == operation.RetryLater || ctx.Err() != nil {
		return cause
	}
	changed := u.begun()
	err := operation.Step(progress, "upgrade: back", func() error { return u.back(ctx, node) })
	if err == nil {
		undo, cancel := context.WithTimeout(ctx, undoTimeout)
		defer cancel()
		err = u.uncordon(undo, node)
	}
	switch {
	case err != nil:
		failed.Message += fmt.Sprintf("; going back failed, too: %v; the Node is left cordoned: uncordon it with kubectl", err)
		failed.Err = errors.Join(failed.Err, err)
	case changed:
		failed.Message += "; the node serves on with its former version"
		if failed.Reason == operation.ReasonNodeNotReady {
			// Each further try would evict the pods of the node again.
			failed.Retry = operation.RetryNever
		}
	}
	return failed
}

// cordon leaves a Node that somebody else has cordoned as it is, so that the end of
// the operation does not undo theirs.
func (u Upgrader) cordon(ctx context.Context, node Node, purpose string) error {
	return u.write(ctx, node, "cordon the Node", func(current *corev1.Node) error {
		if current.Spec.Unschedulable {
			return nil
		}
		return node.SetUnschedulable(ctx, current, true, CordonAnnotation, purpose)
	})
}

func (u Upgrader) uncordon(ctx context.Context, node Node) error {
	return u.write(ctx, node, "uncordon the Node", func(current *corev1.Node) error {
		if _, ours := current.Annotations[CordonAnnotation]; !ours {
			return nil
		}
		return node.SetUnschedulable(ctx, current, false, CordonAnnotation, "")
	})
}

// write repeats a write on a fresh read until nobody else came in between.
func (u Upgrader) write(ctx context.Context, node Node, what string, write func(*corev1.Node) error) error {
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
// ready Node, and gives up early when it ends again and again. Both clocks are this host's.
func (u Upgrader) ready(ctx context.Context, node interface {
	Get(ctx context.Context) (*corev1.Node, error)
}, version string, since time.Time) error {
	was, ends := 0, 0
	return u.await(ctx, func() error {
		if is := u.kubeletProcess(ctx); is != was {
			if was != 0 {
				ends++
			}
			was = is
		}
		if ends >= mostEnds {
			return final{&operation.Error{Reason: operation.ReasonNodeNotReady, Retry: operation.RetryAfterReset,
				Message: fmt.Sprintf("the kubelet of %s ended %d times after its start: %s", version, ends, u.lastWords(ctx))}}
		}
		current, err := node.Get(ctx)
		if err != nil {
			// The control plane may be replaced at the same time.
			return operation.Unreachable(err, "read the Node of this host")
		}
		return notReady(current, version, since)
	})
}

// final is an error for which await need not wait any more.
type final struct{ error }

// Unwrap lets errors.As find what it is.
func (f final) Unwrap() error { return f.error }

// lastWords is why the kubelet ended, as its log has it.
func (u Upgrader) lastWords(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	out, err := u.Runner.Run(ctx, "journalctl", "--unit=kubelet", "--lines="+lastLines, "--output=cat", "--no-pager")
	if err != nil {
		return "see its log on the host"
	}
	return lastError(string(out))
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
