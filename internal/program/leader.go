package program

import (
	"time"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
)

// LeaderElection is how the replicas of a program elect the one that reconciles.
// DefaultLeaderElection holds what the flags default to.
type LeaderElection struct {
	// LeaderElect keeps all but one replica from reconciling.
	LeaderElect bool
	// LeaderElectionNamespace holds the Lease; that of the pod when empty.
	LeaderElectionNamespace string
	// LeaseDuration is after how long without a renewal another replica takes over,
	// RenewDeadline how long the leader tries to renew before it gives up, and
	// RetryPeriod the time between two tries.
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
}

// DefaultLeaderElection elects nobody, and has the times of Kubernetes' own
// components.
func DefaultLeaderElection() LeaderElection {
	return LeaderElection{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
}

// BindFlags makes the election settable by flags, named as in Cluster API's own
// managers. The usage says what the program does not do unless it leads.
func (l *LeaderElection) BindFlags(fs *pflag.FlagSet, usage string) {
	fs.BoolVar(&l.LeaderElect, "leader-elect", l.LeaderElect, usage)
	fs.StringVar(&l.LeaderElectionNamespace, "leader-election-namespace", l.LeaderElectionNamespace, "namespace of the leader's Lease; that of the pod when empty")
	fs.DurationVar(&l.LeaseDuration, "leader-elect-lease-duration", l.LeaseDuration, "time after which another replica may take over")
	fs.DurationVar(&l.RenewDeadline, "leader-elect-renew-deadline", l.RenewDeadline, "time the leader tries to renew before it gives up")
	fs.DurationVar(&l.RetryPeriod, "leader-elect-retry-period", l.RetryPeriod, "time between two tries to become leader")
}

// ApplyLeaderElection sets the election on the options of a manager. The Lease has the name id, and
// is given up when the manager stops.
func (l LeaderElection) ApplyLeaderElection(o *ctrl.Options, id string) {
	o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = l.LeaderElect, id, l.LeaderElectionNamespace
	o.LeaderElectionReleaseOnCancel = true
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = &l.LeaseDuration, &l.RenewDeadline, &l.RetryPeriod
}
