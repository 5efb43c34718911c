package management

import (
	"context"
	"errors"
	"io"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/status"
)

// ErrNotRunning means that a plane of this machine does not serve.
var ErrNotRunning = errors.New("the plane is not running; start it with `slipway up`")

// NoPlaneError wraps what tells that there is no plane where one was looked for.
type NoPlaneError struct{ Err error }

func (e *NoPlaneError) Error() string { return e.Err.Error() }

// Unwrap returns what was found out.
func (e *NoPlaneError) Unwrap() error { return e.Err }

// Plane is a plane of this machine, which the program that contains planes implements.
// What needs a plane that runs fails with ErrNotRunning.
type Plane interface {
	// Dir is its state directory, an absolute path.
	Dir() string
	// Server is the URL of its API server as hosts see it: those on other machines, if it
	// listens for them, or its local ones. CA verifies it.
	Server() string
	CA() ([]byte, error)
	// Config reaches it with the rights of its administrator.
	Config() (*rest.Config, error)
	// Status gathers what is in scope, and Hosts the hosts alone. A plane that does not
	// run is a status, not an error.
	Status(ctx context.Context, connect Connect, scope status.Scope) (status.Status, error)
	Hosts(ctx context.Context, connect Connect, scope status.Scope) (status.Status, error)
	// Nodes lists the Nodes of its workload clusters.
	Nodes(reader client.Reader) status.NodeLister
	// Kubeconfig is the plane's own, WorkloadKubeconfig that of a workload cluster.
	Kubeconfig() (Kubeconfig, error)
	WorkloadKubeconfig(ctx context.Context, reader client.Reader, cluster client.ObjectKey) (Kubeconfig, error)
	// LocalHosts are its hosts on this machine, as they are seen from outside of them;
	// they are known when the plane does not run, too.
	LocalHosts(ctx context.Context) ([]LocalHost, error)
	// LocalLog writes the log of a service of one of them. Without a service of that name it says which
	// there are.
	LocalLog(ctx context.Context, out io.Writer, host, service string, q LogQuery) error
	// Records are the logs and the metrics of the plane, and with hosts the logs of its
	// local hosts. Of a plane that does not run there are those that it left.
	Records(ctx context.Context, hosts bool) ([]Record, error)
}

// LogQuery is what is shown of a log of a local host.
type LogQuery struct {
	// Lines is how many lines of the past are shown, the last ones.
	Lines int
	// Since leaves out earlier lines; nothing when zero.
	Since time.Time
	// Follow goes on with what is appended, until the context ends.
	Follow bool
}

// Connect returns a client of a plane; ErrNotRunning when it does not run.
type Connect func() (client.WithWatch, error)

// Record is text that tells what something did.
type Record struct {
	// Name is its path in a support bundle.
	Name string
	// Open reads it. What reads a file can seek, too.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// LocalHost is a host on this machine.
type LocalHost struct {
	// Namespace and Name that it enrolls with.
	Namespace, Name string
	// MachineID as the host sees it.
	MachineID string
	// State says whether it is on, and its network plugged in.
	State string
	// Address in the network of the hosts.
	Address string
	// PID of its first process; 0 when it is off.
	PID int
}

// Is reports whether a Host is of this machine. The machine ID decides where both are known,
// since a host may be assigned to another namespace.
func (l *LocalHost) Is(h *status.Host) bool {
	if l.MachineID != "" && h.MachineID != "" {
		return l.MachineID == h.MachineID
	}
	return l.Namespace == h.Namespace && l.Name == h.Name
}
