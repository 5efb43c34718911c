package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

const (
	// heartbeatsPerSecond is what all hosts together may cost. A heartbeat takes an
	// API server with its etcd 3 to 4 ms.
	heartbeatsPerSecond = 15
	// leastAsked is the least interval worth asking for: agents renew every 10 s by
	// themselves, which 150 hosts may.
	leastAsked = 10 * time.Second
	// countInterval is how long the number of hosts is taken for granted.
	countInterval = 30 * time.Second
)

// fleet knows the number of hosts, roughly. The zero value is ready for use.
type fleet struct {
	mu      sync.Mutex
	counted time.Time
	hosts   int
}

func (f *fleet) size(ctx context.Context, c client.Reader, now time.Time) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.counted.IsZero() && now.Sub(f.counted) < countInterval {
		return f.hosts, nil
	}
	hosts := &infrav1.HostList{}
	if err := c.List(ctx, hosts, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("count hosts: %w", err)
	}
	f.counted, f.hosts = now, len(hosts.Items)
	return f.hosts, nil
}

// heartbeatInterval is what a Lease has to ask for with so many hosts; 0 for
// nothing. One that asks for about the right interval keeps it, so that a fleet that
// grows host by host writes each Lease a few times only.
func heartbeatInterval(hosts int, asks time.Duration) time.Duration {
	need := time.Duration(hosts) * time.Second / heartbeatsPerSecond
	switch {
	case need <= leastAsked && asks <= 2*leastAsked:
		return asks
	case need <= leastAsked:
		return 0
	case need <= asks && asks <= 2*need:
		return asks
	default:
		return (need + need/4).Round(leastAsked)
	}
}

// askInterval makes a Lease, in memory, ask for the interval that fits the number of
// hosts.
func (r *Reconciler) askInterval(ctx context.Context, lease *coordinationv1.Lease) error {
	hosts, err := r.fleet.size(ctx, r.Client, r.Clock.Now())
	if err != nil {
		return err
	}
	asks, err := time.ParseDuration(lease.Annotations[infrav1.HeartbeatIntervalAnnotation])
	if err != nil {
		asks = 0
	}
	switch interval := heartbeatInterval(hosts, asks); interval {
	case asks:
	case 0:
		delete(lease.Annotations, infrav1.HeartbeatIntervalAnnotation)
	default:
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, infrav1.HeartbeatIntervalAnnotation, interval.String())
	}
	return nil
}
