package effects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/adopt"
	"github.com/slipway-dev/slipway/internal/agent/effects/bootstrap"
	"github.com/slipway-dev/slipway/internal/agent/effects/cloudconfig"
	"github.com/slipway-dev/slipway/internal/agent/effects/logins"
	"github.com/slipway-dev/slipway/internal/agent/effects/reset"
	"github.com/slipway-dev/slipway/internal/agent/effects/upgrade"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
	"github.com/slipway-dev/slipway/internal/agent/hostos/nodeaddress"
	"github.com/slipway-dev/slipway/internal/agent/link/backoff"
	"github.com/slipway-dev/slipway/internal/agent/vip"
)

// verifyTries and verifyPause bound how long a check waits for what goes away by
// itself: a kubelet unit that exits for want of a configuration, a container
// runtime that is starting.
const (
	verifyTries = 5
	verifyPause = time.Second
)

// VirtualIP keeps the control-plane address once the journal names it.
type VirtualIP interface {
	// HoldForInit takes the address before there is a control plane.
	HoldForInit(ctx context.Context, ip netip.Addr) error
}

// Software brings Kubernetes versions onto the host, and removes them.
type Software interface {
	Install(ctx context.Context, requested operation.Software, progress operation.Progress) error
	Tidy(ctx context.Context, inUse string) error
}

// Executor implements operation.Executor.
type Executor struct {
	Root     hostfs.Root
	Applier  bootstrap.Applier
	Cleaner  reset.Cleaner
	Versions kubelet.Versions
	Adopter  adopt.Adopter
	Upgrader upgrade.Upgrader
	VIP      VirtualIP
	// DeleteNode deletes exactly this Node with the credential of the cluster's administrator, which only a
	// control plane has.
	DeleteNode func(ctx context.Context, node *corev1.Node) error
	// Software is nil on a host whose operator brings versions.
	Software Software
	// Rule is what the operator says of the addresses of the node.
	Rule nodeaddress.Rule
	// Interfaces lists the interfaces that are up.
	Interfaces func() ([]nodeaddress.Interface, error)
	// Hostname returns the name the bootstrap data knows the machine by.
	Hostname func() (string, error)
	// Interface returns the network interface that carries the host's traffic, or "".
	Interface func() string
	Log       *slog.Logger
}

// Install implements operation.Executor.
func (e *Executor) Install(ctx context.Context, requested operation.Software, progress operation.Progress) error {
	if e.Software == nil {
		return nil
	}
	return e.Software.Install(ctx, requested, progress)
}

// Tidy implements operation.Executor.
func (e *Executor) Tidy(ctx context.Context, inUse string) error {
	if e.Software == nil {
		return nil
	}
	return e.Software.Tidy(ctx, inUse)
}

// Bootstrap implements operation.Executor.
func (e *Executor) Bootstrap(ctx context.Context, requested operation.Bootstrap, progress operation.Progress) error {
	config, err := e.parse(requested)
	if err != nil {
		return err
	}
	requested.NodeLabels = nodeLabels(requested.NodeLabels, bootstrap.ReadKubeadm(config.WriteFiles))
	steps := []struct {
		name string
		run  func() error
	}{
		{"Kubernetes version", func() error { return e.Versions.Check(ctx, requested.Version) }},
		{"node identity", func() error { return e.decideNode(requested, config, progress) }},
		{"baseline", func() error { return e.prepare(ctx, requested.ClaimID, progress) }},
		{"Kubernetes programs", func() error { return SelectVersion(ctx, e.Versions, requested.Version, progress) }},
		{"virtual IP", func() error { return e.hold(ctx, requested, progress) }},
		{"kubelet arguments", func() error { return e.applyArguments(requested, false, progress) }},
	}
	for _, s := range steps {
		if err := operation.Step(progress, s.name, s.run); err != nil {
			return err
		}
	}
	if err := e.completeData(config, progress); err != nil {
		return err
	}
	if err := e.Applier.Apply(ctx, config, progress); err != nil {
		return err
	}
	if err := e.recordHostName(progress); err != nil {
		return err
	}
	if err := operation.Step(progress, "kubelet unit", func() error { return e.enableKubelet(ctx, progress) }); err != nil {
		return err
	}
	if err := operation.Step(progress, "what changed", func() error {
		return errors.Join(e.recordLogins(progress), e.Cleaner.RecordMade(ctx, progress))
	}); err != nil {
		return err
	}
	if err := operation.Step(progress, "Node", func() error { return e.registered(ctx, requested, progress) }); err != nil {
		return err
	}
	ignored, err := upgrade.IgnoredChecks(e.Root)
	if err != nil || len(ignored) == 0 {
		return err
	}
	return progress.Update(func(s *journal.State) { s.IgnoredChecks = ignored })
}

// parse checks the whole data before anything is changed.
func (e *Executor) parse(requested operation.Bootstrap) (*cloudconfig.Config, error) {
	if requested.Format != "" && requested.Format != "cloud-config" {
		return nil, &operation.Error{Reason: cloudconfig.ReasonUnsupportedFormat, Retry: operation.RetryNever, Message: fmt.Sprintf(
			"the bootstrap data has the format %.32q; set spec.format of the KubeadmConfig to cloud-config", requested.Format)}
	}
	name, err := e.Hostname()
	if err != nil {
		return nil, err
	}
	meta := cloudconfig.MetaData{
		LocalHostname: name, InstanceID: requested.ClaimID, ProviderID: requested.ProviderID, DefaultInterface: e.Interface(),
		OSRelease: inventory.OSRelease(func(path string) ([]byte, error) { return e.Root.ReadFile(path) }),
	}
	var system unix.Utsname
	if err := unix.Uname(&system); err == nil {
		meta.Machine, meta.KernelRelease = unix.ByteSliceToString(system.Machine[:]), unix.ByteSliceToString(system.Release[:])
	}
	if interfaces, err := e.Interfaces(); err == nil {
		virtual, _ := virtualIP(requested)
		if choice, err := e.Rule.Choose(interfaces, []bool{false}, virtual); err == nil {
			meta.LocalIPv4 = choice.IPs[0].String()
		}
	}
	config, err := cloudconfig.Parse(requested.Data, meta)
	if wrong := (*cloudconfig.Error)(nil); errors.As(err, &wrong) {
		return nil, &operation.Error{Reason: wrong.Reason, Message: wrong.Message, Retry: operation.RetryNever}
	}
	return config, err
}

// SelectVersion makes PATH offer a version. What PATH had before is on record
// first, so that a reset can bring it back.
func SelectVersion(ctx context.Context, versions kubelet.Versions, version string, progress operation.Progress) error {
	if version == "" || versions.Offered(ctx, version) {
		return nil
	}
	before, err := versions.Links()
	if err != nil {
		return err
	}
	if err := progress.Update(func(s *journal.State) {
		if s.Programs == nil {
			s.Programs = before
		}
	}); err != nil {
		return err
	}
	return versions.Select(ctx, version)
}

// Adopt implements operation.Executor.
func (e *Executor) Adopt(ctx context.Context, requested operation.Adoption, progress operation.Progress) error {
	return e.Adopter.Adopt(ctx, requested, progress)
}

// Disown implements operation.Executor.
func (e *Executor) Disown() error { return e.Adopter.Disown() }

// Upgrade implements operation.Executor.
func (e *Executor) Upgrade(ctx context.Context, requested operation.Upgrade, progress operation.Progress) error {
	if err := e.Cleaner.KillInterrupted(ctx); err != nil {
		return err
	}
	return e.Upgrader.Upgrade(ctx, requested.Version, progress)
}

// PrepareReboot implements operation.Executor.
func (e *Executor) PrepareReboot(ctx context.Context, drain bool, progress operation.Progress, goDown func(context.Context) error) error {
	return e.Upgrader.Reboot(ctx, drain, progress, goDown)
}

// Reboot implements operation.Executor. A host that goes down ends all programs, and
// may come to systemctl before that has had its answer: then it was obeyed.
func (e *Executor) Reboot(ctx context.Context) error {
	if err := e.registerAnew(ctx); err != nil {
		return err
	}
	_, err := e.Upgrader.Runner.Run(ctx, "systemctl", "reboot")
	exit := (*command.ExitError)(nil)
	if errors.As(err, &exit) && (exit.Code == 128+int(syscall.SIGTERM) || exit.Code == 128+int(syscall.SIGKILL)) {
		return nil
	}
	return err
}

// prepare records the baseline of a clean host. A try that was interrupted
// before its commands began goes on with the baseline it has.
func (e *Executor) prepare(ctx context.Context, claimID string, progress operation.Progress) error {
	if err := e.Cleaner.KillInterrupted(ctx); err != nil {
		return err
	}
	if progress.State().Residue != journal.ResidueNone {
		return nil
	}
	if err := e.mustBeClean(ctx, progress.State()); err != nil {
		return err
	}
	if err := bootstrap.BeginLog(e.Root, claimID); err != nil {
		return err
	}
	if err := e.Cleaner.Forget(); err != nil {
		return err
	}
	baseline, err := e.Cleaner.Baseline(ctx)
	if err != nil {
		return err
	}
	return progress.Update(func(s *journal.State) {
		s.Residue, s.ResidueGeneration = journal.ResidueFiles, s.ClaimGeneration
		s.Baseline, s.CleanProof = baseline, nil
	})
}

// enableKubelet makes the node come back after a power cut.
func (e *Executor) enableKubelet(ctx context.Context, progress operation.Progress) error {
	unit := kubelet.Unit{Runner: e.Applier.Runner}
	if starts, err := unit.StartsAtBoot(ctx); err != nil || starts {
		return err
	}
	if err := progress.Update(func(s *journal.State) { s.KubeletEnabled = true }); err != nil {
		return err
	}
	return unit.Enable(ctx)
}

// recordLogins keeps what the bootstrap changed about who may log in.
func (e *Executor) recordLogins(progress operation.Progress) error {
	made, err := logins.Changes(e.Root, progress.State())
	if err != nil {
		return fmt.Errorf("find out who may log in: %w", err)
	}
	return progress.Update(func(s *journal.State) { s.LoginChanges = &made })
}

// mustBeClean refuses a host on which somebody else has put Kubernetes.
func (e *Executor) mustBeClean(ctx context.Context, state journal.State) error {
	var left []string
	var err error
	for range verifyTries {
		if left, err = e.Cleaner.Verify(ctx, state); err == nil && len(left) == 0 {
			return nil
		}
		if !backoff.Sleep(ctx, verifyPause) {
			return context.Cause(ctx)
		}
	}
	if err != nil {
		return err
	}
	return operation.NotClean(left, "it was not put there by this agent; take it off the host or use another")
}

// hold makes the host a candidate for the address. The host that makes the control plane
// takes it now, since kubeadm init goes there; one that joins must not, since kubeadm join
// reaches the others there. The journal has which it is before anything is held, and holds
// the address no longer than it says so.
func (e *Executor) hold(ctx context.Context, requested operation.Bootstrap, progress operation.Progress) error {
	if requested.VirtualIP == "" {
		return nil
	}
	ip, err := virtualIP(requested)
	if err != nil {
		return err
	}
	taken, err := kubelet.TakenPorts(e.Root.ReadFile, int(requested.VirtualIPPort))
	if err != nil {
		return err
	}
	if err := progress.Update(func(s *journal.State) {
		s.VirtualIP, s.Operation.InitializesControlPlane = requested.VirtualIP, requested.InitializesControlPlane
		if s.VirtualIPPort == 0 {
			s.VirtualIPPort, s.VirtualIPPortTaken = requested.VirtualIPPort, slices.Contains(taken, int(requested.VirtualIPPort))
		}
	}); err != nil {
		return err
	}
	if !requested.InitializesControlPlane {
		return nil
	}
	err = e.VIP.HoldForInit(ctx, ip)
	if conflict := (*vip.ConflictError)(nil); errors.As(err, &conflict) {
		return operation.Failf(operation.ReasonVirtualIPFailed, operation.RetryLater, err, "hold the virtual IP")
	}
	if err != nil {
		return operation.Failf(operation.ReasonVirtualIPFailed, operation.RetryAfterReset, err, "hold the virtual IP")
	}
	return nil
}

// Reset implements operation.Executor.
func (e *Executor) Reset(ctx context.Context, progress operation.Progress) error {
	return e.Cleaner.Reset(ctx, progress)
}

// StopKubelet implements operation.Executor.
func (e *Executor) StopKubelet(ctx context.Context) error { return e.Cleaner.StopKubelet(ctx) }

// Verify implements operation.Executor.
func (e *Executor) Verify(ctx context.Context, state journal.State) ([]string, error) {
	return e.Cleaner.Verify(ctx, state)
}
