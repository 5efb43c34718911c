package reset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
)

// kubeadmTimeout bounds `kubeadm reset`, which waits for an etcd or API server
// that may be gone for ever.
const kubeadmTimeout = 4 * time.Minute

// leaveTimeout is how long a majority of etcd is waited for, of which a member may be starting.
const leaveTimeout, leavePause = time.Minute, 2 * time.Second

// toolTimeout bounds every other program.
const toolTimeout = 30 * time.Second

// VirtualIP releases the control-plane address.
type VirtualIP interface {
	Release(ip netip.Addr) error
	Held(ip netip.Addr) (bool, error)
}

// Cleaner resets and verifies one host.
type Cleaner struct {
	Root    hostfs.Root
	Runner  command.Runner
	Network network.System
	VIP     VirtualIP
	// Probe returns the hardware address of another machine that has an IP address in the network of an interface; empty for none.
	Probe func(link string, ip netip.Addr) (string, error)
	// CRISocket of the container runtime, for kubeadm and ctr.
	CRISocket string
	// Records is the directory in which records of the host are kept, and copies of files that a
	// bootstrap replaces.
	Records string
	// Ignore is what the operator wants left alone.
	Ignore []Ignored
	// Hostname and SetHostname are those of the running system.
	Hostname    func() (string, error)
	SetHostname func(name string) error
	// ConnectEtcd reaches the member that a manifest of this host is of.
	ConnectEtcd func(manifest *corev1.Pod) (Etcd, error)
	// KillInterrupted ends the programs of an interrupted run of this agent.
	KillInterrupted func(context.Context) error
	Log             *slog.Logger
}

// Etcd is the member of this host; *localetcd.Client implements it.
type Etcd interface {
	// Leave takes the member out of its cluster.
	Leave(ctx context.Context) error
}

type step struct {
	name string
	run  func() error
}

// Reset removes everything. The order matters: kubeadm still needs the API
// server, the pods need their network configuration to be torn down, and the virtual
// IP serves until then. What a bootstrap left before another try stays as long as its
// member of etcd cannot leave.
func (c Cleaner) Reset(ctx context.Context, progress operation.Progress) error {
	state := progress.State()
	traces, failed := c.undoAll(ctx, progress)
	steps := slices.Concat([]step{
		{"reset: what changed", func() error { return errors.Join(c.recordLogins(progress), c.RecordMade(ctx, progress)) }},
		{"reset: interrupted commands", func() error { return c.KillInterrupted(ctx) }},
		{stepEtcd, func() error { return c.leaveEtcd(ctx, state) }},
		{"reset: copied credentials", func() error { return c.removeCopies(c.opened(state)) }},
		{"reset: kubeadm", func() error { return c.kubeadm(ctx, state) }},
		{"reset: kubelet", func() error { return errors.Join(c.StopKubelet(ctx), c.disableKubelet(ctx, state)) }},
		{"reset: virtual IP", func() error { return c.releaseVIP(state, progress) }},
		{"reset: iptables chains", func() error { return c.chains(ctx, state.Baseline) }},
		{"reset: kubelet arguments", c.kubeletArguments},
	}, traces, []step{
		{"reset: services", func() error { return c.restartTold(ctx, state) }},
		{"reset: hostname", func() error { return c.restoreHostname(progress.State()) }},
		{"reset: logins", func() error { return c.logins(ctx, progress.State()) }},
	})
	errs := []error{failed}
	for _, s := range steps {
		// One thing that cannot be removed keeps nothing else from going.
		if err := operation.Step(progress, s.name, s.run); err != nil {
			if ctx.Err() != nil {
				return err
			}
			c.Log.Warn("a step of the reset failed", "step", s.name, "err", err)
			if s.name == stepEtcd && retries(state) {
				return mustLeave(err)
			}
			errs = append(errs, &operation.StepError{Step: s.name, Err: err})
		}
	}
	return errors.Join(errs...)
}

// kubeadm runs `kubeadm reset`. When the Cluster is being deleted it must not wait for the
// API server, by which it reads its configuration, nor for etcd: both may have lost their
// quorum. The phase that it skips also removes the data of etcd.
func (c Cleaner) kubeadm(ctx context.Context, state journal.State) error {
	if !c.Runner.Has("kubeadm") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, kubeadmTimeout)
	defer cancel()
	args := []string{"reset", "--force", "--cleanup-tmp-dir"}
	if c.socketExists() {
		args = append(args, "--cri-socket", "unix://"+c.CRISocket)
	}
	if state.Operation == nil || !state.Operation.ClusterDeleting {
		_, err := c.Runner.Run(ctx, "kubeadm", args...)
		return err
	}
	// The manifest goes with the run.
	_, data, err := c.etcdPod()
	_, failed := c.Runner.Run(ctx, "kubeadm", append(args, "--skip-phases", "remove-etcd-member", "--kubeconfig", noKubeconfig)...)
	if data != "" && failed == nil {
		failed = c.removeContents(data)
	}
	return errors.Join(err, failed)
}

const (
	// noKubeconfig does not exist: kubeadm goes on without a client.
	noKubeconfig = "/nonexistent"
	etcdManifest = "/etc/kubernetes/manifests/etcd.yaml"
	stepEtcd     = "reset: etcd"
)

// retries says whether the host is reset for another try of its bootstrap.
func retries(state journal.State) bool {
	return state.Operation != nil && state.Operation.Phase == infrav1.HostDesiredBootstrapped
}

// mustLeave is tried for as long as it takes. Without the data of a member that has a vote, a
// control plane of two never has a majority again. Its Machine's deletion is the way out: nobody
// then waits for what may never come.
func mustLeave(err error) error {
	return &operation.Error{
		Reason: operation.ReasonControlPlaneWaits, Retry: operation.RetryLater, Err: err, Message: "the bootstrap stopped after this host had joined etcd, and without a majority of " +
			"etcd it cannot leave again: bring back the other hosts of the control plane, or delete this Machine: " + operation.Truncate(err.Error(), maxCause),
	}
}

// maxCause bounds the cause in a message, in bytes.
const maxCause = 300

// leaveEtcd takes the member of this host out of the cluster of etcd, while its data is there.
// It waits for a majority, of which this member may be a part: it starts with its host.
func (c Cleaner) leaveEtcd(ctx context.Context, state journal.State) error {
	op := state.Operation
	if op == nil || op.ClusterDeleting || retries(state) && op.InitializesControlPlane {
		return nil
	}
	manifest, data, err := c.etcdPod()
	if data == "" {
		data = "/var/lib/etcd" // of a manifest that was lost, or cut
	}
	if _, err := os.Lstat(c.Root.Path(filepath.Join(data, "member"))); errors.Is(err, fs.ErrNotExist) {
		return nil // never started, so it has no vote
	}
	if manifest == nil || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	for try := 0; ; try++ {
		member, err := c.ConnectEtcd(manifest)
		if err == nil {
			err = member.Leave(ctx)
		}
		if err == nil {
			return nil
		}
		if try == 0 && c.Runner.Has("systemctl") {
			// A host may not start it by itself.
			if _, err := c.Runner.Run(ctx, "systemctl", "start", "kubelet"); err != nil {
				c.Log.Warn("cannot start the kubelet, which runs the member of etcd", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(leavePause):
		}
	}
}

// etcdPod is the static pod of etcd, and the directory with its data as it mounts it; neither on a host without etcd.
func (c Cleaner) etcdPod() (*corev1.Pod, string, error) {
	manifest, err := c.Root.ReadFile(etcdManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	pod := &corev1.Pod{}
	if err == nil {
		err = yaml.Unmarshal(manifest, pod)
	}
	if err != nil {
		return nil, "", fmt.Errorf("find the data of etcd: %w", err)
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Name == "etcd-data" && volume.HostPath != nil && filepath.Clean(volume.HostPath.Path) != "/" {
			return pod, volume.HostPath.Path, nil
		}
	}
	return pod, "", nil
}

// StopKubelet stops the kubelet, and keeps it from starting again until kubeadm
// or the operator does so.
func (c Cleaner) StopKubelet(ctx context.Context) error {
	if !c.Runner.Has("systemctl") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	_, err := c.Runner.Run(ctx, "systemctl", "stop", "kubelet")
	exit := (*command.ExitError)(nil)
	if errors.As(err, &exit) && exit.Code == unitNotLoaded {
		return nil
	}
	return err
}

// disableKubelet leaves the unit as it was before the bootstrap.
func (c Cleaner) disableKubelet(ctx context.Context, state journal.State) error {
	if !state.KubeletEnabled {
		return nil
	}
	return kubelet.Unit{Runner: c.Runner}.Disable(ctx)
}

// unitNotLoaded is systemctl's exit code for a unit that does not exist.
const unitNotLoaded = 5

// removeContainers removes what kubeadm left in the runtime.
func (c Cleaner) removeContainers(ctx context.Context, _ []string) error {
	ids, err := c.listContainers(ctx)
	errs := []error{err}
	for _, id := range ids {
		// A container without a task has nothing to delete there.
		_, _ = c.ctr(ctx, "tasks", "delete", "--force", id)
		_, err := c.ctr(ctx, "containers", "delete", id)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c Cleaner) listContainers(ctx context.Context) ([]string, error) {
	if !c.Runner.Has("ctr") {
		return nil, nil
	}
	if !c.socketExists() {
		// A runtime that is down still has its containers.
		return nil, fmt.Errorf("containerd is not running: %s does not exist; start it", c.CRISocket)
	}
	out, err := c.ctr(ctx, "containers", "list", "--quiet")
	return strings.Fields(string(out)), err
}

func (c Cleaner) ctr(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	return c.Runner.Run(ctx, "ctr", append([]string{"--address", c.CRISocket, "--namespace", "k8s.io"}, args...)...)
}

func (c Cleaner) socketExists() bool {
	_, err := os.Stat(c.Root.Path(c.CRISocket))
	return err == nil
}

func (c Cleaner) releaseVIP(state journal.State, progress operation.Progress) error {
	if state.VirtualIP == "" {
		return nil
	}
	ip, err := netip.ParseAddr(state.VirtualIP)
	if err != nil {
		return err
	}
	// The record goes first, or the keeper would add the address again.
	if err := progress.Update(func(s *journal.State) { s.VirtualIP = "" }); err != nil {
		return err
	}
	return c.VIP.Release(ip.Unmap())
}

// chains takes the chains of Kubernetes out of the tables of iptables of a host of which nobody knows
// what they were before. Of others the trace restores the whole table.
func (c Cleaner) chains(ctx context.Context, baseline *journal.Baseline) error {
	if baseline != nil && !baseline.Node {
		return nil
	}
	return errors.Join(c.flushIPTables(ctx, "iptables-save"), c.flushIPTables(ctx, "ip6tables-save"))
}

func (c Cleaner) kubeletArguments() error {
	if err := kubelet.Remove(c.Root); err != nil {
		return &operation.Unverifiable{Err: fmt.Errorf("restore the arguments of the kubelet: %w", err)}
	}
	return nil
}

// restoreHostname gives the running system the name that it had, unless somebody else gave it another
// one since.
func (c Cleaner) restoreHostname(state journal.State) error {
	if state.Hostname == nil {
		return nil
	}
	now, err := c.Hostname()
	if err != nil || now != state.Hostname.After {
		return err
	}
	return c.SetHostname(state.Hostname.Before)
}
