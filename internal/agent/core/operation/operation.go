package operation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
)

// Reasons of observedOperation that the agent itself gives: of any operation or a
// bootstrap, of adoptions, of upgrades, and of reboots.
const (
	ReasonSecretUnavailable     = "BootstrapSecretUnavailable"
	ReasonVirtualIPFailed       = "VirtualIPFailed"
	ReasonStepFailed            = "StepFailed"
	ReasonCommandFailed         = "CommandFailed"
	ReasonNTPClientMissing      = "NTPClientMissing"
	ReasonResetFailed           = "ResetFailed"
	ReasonNotClean              = "NotClean"
	ReasonInterrupted           = "Interrupted"
	ReasonInterruptedTooOften   = "InterruptedTooOften"
	ReasonStaleClaim            = "StaleClaimGeneration"
	ReasonClaimMismatch         = "ClaimMismatch"
	ReasonAlreadyReset          = "AlreadyReset"
	ReasonJournalUnwritable     = "JournalUnwritable"
	ReasonNotBootstrapped       = "NotBootstrapped"
	ReasonOrderUnknown          = "OrderUnknown"
	ReasonNodeExists            = "NodeExists"
	ReasonClusterUnreachable    = "ClusterUnreachable"
	ReasonBootstrapTokenUnknown = "BootstrapTokenUnknown"
	ReasonSoftwareUnavailable   = "SoftwareUnavailable"
	ReasonControlPlaneExists    = "ControlPlaneExists"
	ReasonNodeAddressUnknown    = "NodeAddressUnknown"
	ReasonNodeNameInvalid       = "NodeNameInvalid"
	ReasonRecordLost            = "RecordLost"

	ReasonNotAWorkerNode  = "NotAWorkerNode"
	ReasonOtherCluster    = "OtherCluster"
	ReasonVersionMismatch = "VersionMismatch"
	ReasonProviderIDTaken = "ProviderIDTaken"
	ReasonKubeletInactive = "KubeletInactive"
	ReasonNodeNotReported = "NodeNotReported"
	ReasonWithdrawn       = "Withdrawn"

	ReasonControlPlaneHost     = "ControlPlaneHost"
	ReasonControlPlaneWaits    = "ControlPlaneUnhealthy"
	ReasonStaticPods           = "StaticPodsNotRunning"
	ReasonEtcdSnapshot         = "EtcdSnapshotFailed"
	ReasonControlPlaneOlder    = "ControlPlaneOlder"
	ReasonDowngrade            = "DowngradeRefused"
	ReasonVersionSkew          = "VersionSkew"
	ReasonDrainTimeout         = "DrainTimeout"
	ReasonEvictionsRefused     = "EvictionsRefused"
	ReasonKubeadmFailed        = "KubeadmUpgradeFailed"
	ReasonConfigurationRefused = "ConfigurationRefused"
	ReasonNodeUnreachable      = "NodeUnreachable"
	ReasonNodeNotReady         = "NodeNotReady"

	ReasonBootIDUnknown = "BootIDUnknown"
	ReasonNotRebooted   = "NotRebooted"
)

// Retry says what another try needs.
type Retry int

const (
	// RetryAfterReset means that the operation may succeed when it begins afresh:
	// a bootstrap on a clean host, anything else from its first step. Such tries
	// are counted and bounded.
	RetryAfterReset Retry = iota
	// RetryLater means that nothing is wrong with the host or the data; the try
	// is not counted.
	RetryLater
	// RetryNever means that the same operation fails again.
	RetryNever
	// RetryWhenAccepted means that the cluster did not accept the node, for a reason that passes without any
	// change to host or data. Such a try of a bootstrap is not counted with those that failed. The next one
	// begins afresh, later each time.
	RetryWhenAccepted
)

// PatientTries of RetryWhenAccepted last more than a quarter of an hour, three times the longest
// node-monitor-grace-period that is common.
const PatientTries = 20

// Error is a failure of an operation that can be told to the user: it never
// holds output of commands or content of files.
type Error struct {
	// Reason is a CamelCase word.
	Reason string
	// Message names the thing and the remedy.
	Message string
	Retry   Retry
	// Tries bounds those of RetryWhenAccepted that end with the same reason one after the other; 0 does not.
	Tries int
	// Step that failed, where it need not be the last one; empty otherwise.
	Step string
	// Err is the cause, for the log of the agent. May be nil.
	Err error
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// fault is an error of a package that knows no operations and still has the reason of a failed one.
type fault interface {
	error
	// OperationReason returns the reason, and whether the same operation fails again.
	OperationReason() (reason string, permanent bool)
}

// AsError returns err as an *Error; one that does not say its reason becomes StepFailed.
func AsError(err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	if f := fault(nil); errors.As(err, &f) {
		retry := map[bool]Retry{false: RetryAfterReset, true: RetryNever}
		reason, permanent := f.OperationReason()
		return &Error{Reason: reason, Message: f.Error(), Retry: retry[permanent]}
	}
	return &Error{Reason: ReasonStepFailed, Message: err.Error(), Err: err}
}

// Failf makes an *Error of a cause, with a message that ends in it.
func Failf(reason string, retry Retry, cause error, format string, args ...any) error {
	return &Error{Reason: reason, Retry: retry, Err: cause, Message: fmt.Sprintf(format, args...) + ": " + cause.Error()}
}

// StepError is the error of one step of an operation that goes on with the next.
type StepError struct {
	Step string
	Err  error
}

// Error implements error.
func (e *StepError) Error() string { return e.Step + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// Unverifiable is an error of a reset that Verify would not find afterwards: the host does not
// count as clean while it occurs.
type Unverifiable struct{ Err error }

// Error implements error.
func (e *Unverifiable) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Unverifiable) Unwrap() error { return e.Err }

// Unreachable is an error of the workload cluster, or nil for none: an answer counts as
// a failed try, and no answer at all does not.
func Unreachable(err error, what string) error {
	if err == nil {
		return nil
	}
	retry := RetryAfterReset
	if answer := apierrors.APIStatus(nil); !errors.As(err, &answer) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) {
		retry = RetryLater
	}
	return Failf(ReasonNodeUnreachable, retry, err, "%s", what)
}

// Bootstrap is one operation to bootstrap the host.
type Bootstrap struct {
	ClaimID    string
	ProviderID string
	// Version of Kubernetes; empty takes what the host has.
	Version string
	// VirtualIP to hold; empty holds none.
	VirtualIP string
	// VirtualIPPort is the port of the control-plane endpoint; 0 when it is not known.
	VirtualIPPort int32
	// InitializesControlPlane is true on the host that holds VirtualIP before there is an API
	// server.
	InitializesControlPlane bool
	// IPFamilies are those of the cluster, the primary one first; empty when they are not known.
	IPFamilies []infrav1.HostIPFamily
	// NodeLabels are what the Node gets when it registers.
	NodeLabels map[string]string
	// Format is the format the Secret names; empty means cloud-config.
	Format string
	// Data is the bootstrap data. It is kept in memory only.
	Data []byte
}

// Adoption is one operation to take over the worker node that runs on the host.
type Adoption struct {
	ProviderID string
	// Version of Kubernetes the kubelet must be of; empty takes any.
	Version string
	// ClusterCAs are the hashes of the certificate authorities of the cluster, as
	// internal/host makes them. Without one nothing is adopted.
	ClusterCAs []string
}

// Software is what an operation needs of a host before its own first step.
type Software struct {
	// Version of Kubernetes; empty takes what the host has.
	Version string
	// ReleaseDigest names the host bundle to install unless it is there; empty installs none.
	ReleaseDigest string
}

// Upgrade is one operation to change the Kubernetes version of a node in place.
type Upgrade struct {
	// Version to run.
	Version string
}

// Progress records an operation in the journal. Its methods return after the
// record is on disk, and fail when it cannot be written; the executor then
// stops before the effect.
type Progress interface {
	// Begin is called before a step.
	Begin(step string) error
	// Done is called after the step.
	Done() error
	// State returns a copy of the journal's state.
	State() journal.State
	// Update changes the journal's state.
	Update(change func(*journal.State)) error
}

// Executor has the effects of operations on a host. Its methods are never
// called at the same time, may be interrupted at any point by the end of the
// agent or of the host, and can then be called again. When the context ends
// they leave no process running.
type Executor interface {
	// Install brings the Kubernetes version of an operation onto the host, where the agent
	// installs versions.
	Install(ctx context.Context, requested Software, progress Progress) error
	// Tidy removes versions that nothing uses, where the agent installs versions. inUse is
	// that of the Host's operation, empty on a free host.
	Tidy(ctx context.Context, inUse string) error
	// Bootstrap makes the host a node. Before its first effect it records
	// residue in the journal.
	Bootstrap(ctx context.Context, requested Bootstrap, progress Progress) error
	// Adopt takes over the worker node that runs on the host, and leaves it as it is.
	// It records residue in the journal with its last step.
	Adopt(ctx context.Context, requested Adoption, progress Progress) error
	// Disown takes back what an adoption has begun that was not done.
	Disown() error
	// Upgrade brings a bootstrapped node to another Kubernetes version.
	Upgrade(ctx context.Context, requested Upgrade, progress Progress) error
	// PrepareReboot drains the Node, if that is requested, and calls goDown, which ends with the host.
	// If that fails for good the Node takes pods again.
	PrepareReboot(ctx context.Context, drain bool, progress Progress, goDown func(context.Context) error) error
	// Reboot asks the host to reboot and returns once that is under way. A kubelet
	// whose Node is gone makes it anew in the next boot.
	Reboot(ctx context.Context) error
	// Rebooted is called in the boot after Reboot, or after PrepareReboot that a power cut ended. A Node
	// that PrepareReboot cordoned takes pods again once the kubelet of that boot reports it ready.
	Rebooted(ctx context.Context, bootID string, progress Progress) error
	// Reset undoes a bootstrap, in whatever state it is.
	Reset(ctx context.Context, progress Progress) error
	// StopKubelet stops the kubelet and leaves everything else.
	StopKubelet(ctx context.Context) error
	// Node returns the claim that the kubelet of the host has its provider ID of, and whether its Node was
	// registered; empty on a host that this agent has not made a node. It reads what is on the host, not
	// the journal.
	Node() (claimID string, registered bool, err error)
	// Verify returns what is left of Kubernetes on the host; nothing means
	// clean. An error means that it could not be found out.
	Verify(ctx context.Context, state journal.State) ([]string, error)
}

// Step runs one step of an operation between its two records.
func Step(progress Progress, name string, run func() error) error {
	if err := progress.Begin(name); err != nil {
		return err
	}
	if err := run(); err != nil {
		return err
	}
	return progress.Done()
}

// maxNamed bounds how many leftovers a message names.
const maxNamed = 8

// UnknownChanges begins what Verify returns for changes that nobody can know, since their record is
// lost. Another reset finds no more.
const UnknownChanges = "unknown changes: "

// NotClean is the error of a host on which something of Kubernetes is left.
func NotClean(left []string, remedy string) error {
	named := left
	if len(named) > maxNamed {
		named = append(append([]string{}, left[:maxNamed]...), fmt.Sprintf("and %d more", len(left)-maxNamed))
	}
	return &Error{Reason: ReasonNotClean, Retry: RetryNever,
		Message: fmt.Sprintf("the host is not clean: %s; %s", strings.Join(named, ", "), remedy)}
}

// Truncate returns text in at most so many bytes, as a status may hold it. It cuts between
// characters, and replaces what is no UTF-8, as encoding/json would: a text that the journal or the
// API returns is then the one that was put there.
func Truncate(text string, most int) string {
	const end = "..."
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(end)], "") + end
}
