package journal

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Residue says what a bootstrap may have left on the host.
type Residue string

const (
	// ResidueNone means that nothing was done since the last proof, or ever.
	ResidueNone Residue = ""
	// ResidueFiles means that files, users or arguments may have been written.
	// Doing it again overwrites them.
	ResidueFiles Residue = "Files"
	// ResidueCommands means that bootstrap commands have begun. kubeadm is not
	// idempotent: only a reset makes the host usable for another try.
	ResidueCommands Residue = "Commands"
)

// State is the whole content of the journal.
type State struct {
	// HostUID is the UID of the Host whose requests the agent follows; empty until it has
	// seen one. Generations count within one Host: a machine that is enrolled again has
	// another one, which begins with 0.
	HostUID types.UID `json:"hostUID,omitempty"`
	// Lost says why the journal does not tell what was done to the host; nil while it tells. There is no
	// proof that the host is clean until an operator gives the word for it.
	Lost *Loss `json:"lost,omitempty"`
	// ClaimGeneration is the newest generation the agent has acted for.
	ClaimGeneration int64 `json:"claimGeneration"`
	// ClaimID is the claim of that generation.
	ClaimID string `json:"claimID,omitempty"`
	// ResetGeneration is the newest generation a reset was requested for. A
	// bootstrap of it or of an older one is refused.
	ResetGeneration int64 `json:"resetGeneration,omitempty"`
	// BootstrappedClaimID is the claim whose bootstrap succeeded and was not
	// reset since. It is never bootstrapped again.
	BootstrappedClaimID string `json:"bootstrappedClaimID,omitempty"`

	// Residue is what may be on the host, of the claim generation below.
	Residue           Residue `json:"residue,omitempty"`
	ResidueGeneration int64   `json:"residueGeneration,omitempty"`
	// CleanByHand is set by a reset of policy Manual: the operator cleans, the
	// agent only checks.
	CleanByHand bool `json:"cleanByHand,omitempty"`

	// Operation is the last operation begun.
	Operation *Operation `json:"operation,omitempty"`
	// CleanProof is the last proof; nil when the host is not known to be clean.
	CleanProof *infrav1.CleanProof `json:"cleanProof,omitempty"`

	// Found is what a check of a free host found of Kubernetes that this agent did
	// not put there, at most MaxFound entries.
	Found []string `json:"found,omitempty"`

	// Node is what was decided about the node, once, before the bootstrap began to change the host;
	// nil without one, and on a host that an earlier agent made a node.
	Node *Node `json:"node,omitempty"`
	// VirtualIP is the address the host holds, re-added after a reboot.
	VirtualIP string `json:"virtualIP,omitempty"`
	// VirtualIPPort is the port of the control-plane endpoint; 0 when it is not known. It
	// stays until the host is clean, since the proof includes that nothing listens there.
	VirtualIPPort int32 `json:"virtualIPPort,omitempty"`
	// VirtualIPPortTaken is true when a program of the host's own listened at VirtualIPPort
	// before the bootstrap: the proof is not about that one.
	VirtualIPPortTaken bool `json:"virtualIPPortTaken,omitempty"`
	// Files are the paths that the bootstrap created, and Directories those on the way to them.
	Files       []string `json:"files,omitempty"`
	Directories []string `json:"directories,omitempty"`
	// Kept are the files that it replaced.
	Kept []KeptFile `json:"kept,omitempty"`
	// Made maps the other files that changed while it ran to what they were at its end; nil until that
	// is known. Empty is a file that went.
	Made map[string]string `json:"made"`
	// Restarted are the services that it told something, by their units.
	Restarted []string `json:"restarted,omitempty"`
	// Hostname is how it named the running system; nil when it did not.
	Hostname *Renamed `json:"hostname,omitempty"`
	// Users and Groups are the names of the accounts and groups that the users of the
	// bootstrap data created.
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// Passwords are the password fields, of /etc/shadow, of accounts that were there
	// before and whose password the bootstrap data set. The journal is readable by root
	// only, as that file is.
	Passwords map[string]string `json:"passwords,omitempty"`
	// LoginChanges is what the bootstrap changed about who may log in; nil until it is
	// known, at the end of the bootstrap or at the begin of a reset.
	LoginChanges *LoginChanges `json:"loginChanges,omitempty"`
	// Programs are the links of Kubernetes' programs on PATH as they were before
	// the agent chose a version: the target by name, empty where there was none.
	Programs map[string]string `json:"programs,omitempty"`
	// KubeletEnabled is true when the agent had systemd start the kubelet at boot, which
	// it did not before.
	KubeletEnabled bool `json:"kubeletEnabled,omitempty"`
	// IgnoredChecks are the preflight checks of kubeadm that the bootstrap ignored;
	// an upgrade ignores the same.
	IgnoredChecks []string `json:"ignoredChecks,omitempty"`
	// Baseline is what the host looked like before the bootstrap.
	Baseline *Baseline `json:"baseline,omitempty"`

	// Cordoned is true from before a reboot cordons the Node until the Node is uncordoned. The
	// Node's annotation has whether it was the agent that cordoned it.
	Cordoned bool `json:"cordoned,omitempty"`

	// ControlPlaneUpgrade is the upgrade of a control-plane host that has begun to change
	// it and has not come to its end; nil when there is none.
	ControlPlaneUpgrade *ControlPlaneUpgrade `json:"controlPlaneUpgrade,omitempty"`
	// EtcdSnapshot is the last one; nil when there is none.
	EtcdSnapshot *EtcdSnapshot `json:"etcdSnapshot,omitempty"`
}

// Loss is that of what the journal told.
type Loss struct {
	// Why it is lost, for a message.
	Why string `json:"why"`
	// Generation is the claimGeneration of the Host when that was found; nil until the Host is known. An
	// operator's word for an earlier one says nothing about what was lost.
	Generation *int64 `json:"generation,omitempty"`
}

// Node is the identity of a node, which does not follow its host's name and addresses.
type Node struct {
	// Name of the Node.
	Name string `json:"name"`
	// HostName is what the host was called at the end of the bootstrap; empty before that.
	HostName string `json:"hostName,omitempty"`
	// IPs of the node, one of each family, the primary one first.
	IPs []netip.Addr `json:"ips,omitempty"`
	// Source of the first.
	Source infrav1.HostNodeAddressSource `json:"source,omitempty"`
}

// ControlPlaneUpgrade says where the files of the control plane are as they were before
// an upgrade. It is recorded once they are all there, and before anything changes.
type ControlPlaneUpgrade struct {
	// Version that the host is being upgraded to.
	Version string `json:"version"`
	// Kept is the directory with the files.
	Kept string `json:"kept"`
}

// EtcdSnapshot is a snapshot of the cluster's etcd, for people: nothing restores it by
// itself. It is recorded once it is complete, and before another etcd starts.
type EtcdSnapshot struct {
	// Path of the file.
	Path string `json:"path"`
	// Size in bytes.
	Size int64 `json:"size"`
	// Before is the Kubernetes version before whose upgrade it was taken.
	Before string `json:"before"`
	// Time it was complete.
	Time time.Time `json:"time"`
}

// MaxFound bounds State.Found: it is reported in the status of the Host.
const MaxFound = 16

// Operation is the record of one Host.spec.desired.
type Operation struct {
	ID              string                   `json:"id"`
	ClaimID         string                   `json:"claimID"`
	ClaimGeneration int64                    `json:"claimGeneration"`
	Phase           infrav1.HostDesiredPhase `json:"phase"`
	State           infrav1.OperationState   `json:"state"`
	// ResetPolicy of a reset.
	ResetPolicy infrav1.ResetPolicy `json:"resetPolicy,omitempty"`
	// ClusterDeleting is true for a reset of a control-plane host whose Cluster is being
	// deleted: etcd is not asked.
	ClusterDeleting bool `json:"clusterDeleting,omitempty"`
	// InitializesControlPlane is true for a bootstrap that makes a control plane, from before
	// it takes the control-plane address.
	InitializesControlPlane bool `json:"initializesControlPlane,omitempty"`
	// Step is the step under way or the last one; StepDone tells which.
	Step     string `json:"step,omitempty"`
	StepDone bool   `json:"stepDone,omitempty"`
	// Active is true while an executor is at work. When it is found true at the
	// start of the agent, the work was interrupted.
	Active bool `json:"active,omitempty"`
	// StepBootID is the boot in which the step began.
	StepBootID string `json:"stepBootID,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Message    string `json:"message,omitempty"`
	// ResetFirst asks for a reset before the bootstrap: an older claim left
	// something, or a try was interrupted while commands ran.
	ResetFirst bool `json:"resetFirst,omitempty"`
	// FailedStep is the step that failed, while that is not the last one: a reset goes on with the next.
	FailedStep string `json:"failedStep,omitempty"`
	// Failures counts the tries that failed, Interruptions those that a crash
	// or a reboot cut short.
	Failures      int `json:"failures,omitempty"`
	Interruptions int `json:"interruptions,omitempty"`
	// Refusals counts the tries in a row that the cluster refused for the reason above.
	Refusals int `json:"refusals,omitempty"`
	// NextTry is when a reset that failed is tried again; zero when it is not.
	NextTry   time.Time `json:"nextTry,omitzero"`
	StartTime time.Time `json:"startTime"`
	// CompletionTime is zero while the operation is running.
	CompletionTime time.Time `json:"completionTime,omitzero"`
	// Steps are the last MaxSteps steps that were begun, with those of earlier tries.
	Steps []Step `json:"steps,omitempty"`
}

// MaxSteps bounds Operation.Steps: they are reported in the status of the Host.
const MaxSteps = 64

// Step is when a step was carried out. End is zero while it is under way, and stays so
// when a crash or a reboot cut it short.
type Step struct {
	Name  string    `json:"name"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end,omitzero"`
}

// Baseline is what the host was like before a bootstrap.
type Baseline struct {
	// Record is the digest of the record of the host, and its name in the directory of records: it
	// is too large for the journal.
	Record string `json:"record"`
	// Interfaces are the names of the network interfaces, which the report of addresses needs at each
	// beat.
	Interfaces []string `json:"interfaces,omitempty"`
	// Node is true for a host that was a node already: what was there before that is not known.
	Node bool `json:"node,omitempty"`
	// Logins are who could log in; nil when that is not known.
	Logins *Logins `json:"logins,omitempty"`
}

// KeptFile is a file that the bootstrap replaces, or changes mode and owner of. Fingerprints are
// those of the package reset.
type KeptFile struct {
	Path string `json:"path"`
	// Before is what it was; After what the bootstrap made of it, once it has ended.
	Before string `json:"before"`
	After  string `json:"after,omitempty"`
	// Copy is the name of its content in the directory of records; empty for a link, and where only mode
	// and owner are kept.
	Copy string `json:"copy,omitempty"`
}

// Renamed are the names of the running system before and after a bootstrap.
type Renamed struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

// Logins is who may log in to the host and act as its administrator. Digests stand for
// everything secret.
type Logins struct {
	// Accounts maps each account to a digest of what makes its login; empty for one that
	// nobody can log in to.
	Accounts map[string]string `json:"accounts,omitempty"`
	// Keys maps files of SSH keys to the digests of their lines.
	Keys map[string][]string `json:"keys,omitempty"`
	// Members maps groups to their members.
	Members map[string][]string `json:"members,omitempty"`
	// Sudoers maps files of sudo's rules to their digests.
	Sudoers map[string]string `json:"sudoers,omitempty"`
	// Numbers maps accounts to user ID, group ID, home and shell. Agents of before recorded none.
	Numbers map[string]string `json:"numbers,omitempty"`
}

// LoginChanges is what a bootstrap changed about Logins.
type LoginChanges struct {
	// Created are accounts, and Groups the groups, that were not there before.
	Created []string `json:"created,omitempty"`
	Groups  []string `json:"groups,omitempty"`
	// Changed maps accounts that were there before to the digest that they have since.
	Changed map[string]string `json:"changed,omitempty"`
	// Keys maps files of SSH keys to the digests of the lines that came.
	Keys map[string][]string `json:"keys,omitempty"`
	// Members maps groups to accounts, there before, that joined them.
	Members map[string][]string `json:"members,omitempty"`
	// Sudoers are the files that came; Edited maps those that were there before to the
	// digest that they have since.
	Sudoers []string          `json:"sudoers,omitempty"`
	Edited  map[string]string `json:"edited,omitempty"`
	// Taken is what was there before and is not any more: accounts, or that somebody can log in to them;
	// keys; members; files of rules; the numbers of accounts as they were. It is named, nobody can restore it.
	Taken *Logins `json:"taken,omitempty"`
}

// FullReset says whether the operation is a reset of policy Full.
func (s State) FullReset() bool {
	return s.Operation != nil && s.Operation.Phase == infrav1.HostDesiredReset && s.Operation.ResetPolicy == infrav1.ResetPolicyFull
}

// Running reports whether an operation is under way.
func (s State) Running() bool {
	return s.Operation != nil && s.Operation.State == infrav1.OperationRunning
}

// NodeOf is the claim that the host is the node of. It is empty from the moment a reset of it was requested,
// which takes the node apart even where it fails.
func (s State) NodeOf() string {
	if s.ResetGeneration > 0 && s.ResetGeneration >= s.ClaimGeneration {
		return ""
	}
	return s.BootstrappedClaimID
}
