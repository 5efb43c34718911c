package config

// The files of the state directory, all readable by root only. Every package that writes there
// takes the name from here, because `slipway-agent uninstall` removes only StateFiles from a
// directory that the operator chose.
const (
	// IdentityKeyFile is the key of Host.spec.hostID, EnrollmentFile the certificate by which the
	// agent requests its working certificates.
	IdentityKeyFile = "identity.key"
	EnrollmentFile  = "enrollment.crt"
	// WorkingFile has the working certificate and its key, NextKeyFile the key of the one that is
	// being requested.
	WorkingFile    = "client.pem"
	NextKeyFile    = "client-next.key"
	KubeconfigFile = "kubeconfig"
	HostNameFile   = "host-name"
	// RemovedBootstrapFile has the digest of the bootstrap kubeconfig that was removed last.
	RemovedBootstrapFile = "bootstrap-kubeconfig.sha256"
	// AssignedFile says in which namespace the host is, HandOverFile has the prepared hand-over,
	// and handedOverFile (host.HomeFile) says in which management cluster the host is.
	AssignedFile   = "assigned.json"
	HandOverFile   = "hand-over.json"
	handedOverFile = "handed-over.json"
	// UpdateFile records an update of the agent, UpdateDirectory holds its bundle.
	UpdateFile      = "agent-update.json"
	UpdateDirectory = "agent-update.fetched"
	// RecordsDirectory has the record of what the host was before it became a node, and copies of
	// files that were replaced.
	RecordsDirectory = "records"
	// JournalFile records what was done to the host.
	JournalFile = "journal"
	// LockFile is locked by the agent that runs.
	LockFile = "lock"
)

// StateFiles are the files of the state directory in the order of their removal: the journal,
// which says whether the host serves, goes after what names the host.
var StateFiles = []string{
	IdentityKeyFile, EnrollmentFile, WorkingFile, NextKeyFile, KubeconfigFile, HostNameFile, RemovedBootstrapFile,
	AssignedFile, HandOverFile, handedOverFile, UpdateFile, JournalFile, LockFile,
}

// StateDirectories are the directories of the state directory.
var StateDirectories = []string{UpdateDirectory, RecordsDirectory}
