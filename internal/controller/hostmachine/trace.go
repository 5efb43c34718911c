package hostmachine

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/tracing"
)

// unfinished are the machines that this process saw before they were provisioned, with when
// they were. The trace of a machine ends with the first sight of its Node: a Node that was
// there when the process began, another process has told of. The zero value is ready for use.
type unfinished struct {
	mu       sync.Mutex
	machines map[types.NamespacedName]provisioned
}

// provisioned is since when a machine is provisioned; zero while it is not.
type provisioned struct {
	uid   types.UID
	since time.Time
}

// note looks at a machine after its reconcile.
func (u *unfinished) note(m *infrav1.HostMachine, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := client.ObjectKeyFromObject(m)
	at, known := u.machines[key]
	switch {
	case !m.DeletionTimestamp.IsZero():
		delete(u.machines, key)
	case !ptr.Deref(m.Status.Initialization.Provisioned, false):
		if u.machines == nil {
			u.machines = map[types.NamespacedName]provisioned{}
		}
		u.machines[key] = provisioned{uid: m.UID}
	case known && at.uid == m.UID && at.since.IsZero():
		u.machines[key] = provisioned{m.UID, now}
	}
}

// finish says since when a machine was provisioned whose Node is seen for the first time.
func (u *unfinished) finish(m *infrav1.HostMachine, now time.Time) (time.Time, bool) {
	key := client.ObjectKeyFromObject(m)
	u.mu.Lock()
	defer u.mu.Unlock()
	at := u.machines[key]
	if at.uid != m.UID || m.UID == "" {
		return time.Time{}, false
	}
	delete(u.machines, key)
	if at.since.IsZero() {
		return now, true
	}
	return at.since, true
}

// forget drops a machine that is gone.
func (u *unfinished) forget(key types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.machines, key)
}

// traceClaim tells that a host was claimed, and returns the context of that.
func (r *Reconciler) traceClaim(ctx context.Context, s *scope, h *infrav1.Host) context.Context {
	if r.Tracer == nil {
		return ctx
	}
	ctx = r.Tracer.Join(ctx, tracing.OfClaim(s.hostMachine.Spec.ClaimID))
	return r.Tracer.Child(ctx, tracing.Span{
		Name: "claim a host", Start: s.hostMachine.CreationTimestamp.Time, End: r.Clock.Now(),
		Attributes: append(traceAttributes(s.hostMachine), tracing.HostKey.String(h.Name)),
	})
}

// traceNode tells that the Node of a machine is ready for the first time, which ends the
// trace of its claim.
func (r *Reconciler) traceNode(ctx context.Context, s *scope, machine *clusterv1.Machine) {
	if r.Tracer == nil {
		return
	}
	since, first := r.unfinished.finish(s.hostMachine, r.Clock.Now())
	if !first {
		return
	}
	ready := r.Clock.Now()
	if c := conditions.Get(machine, clusterv1.MachineNodeReadyCondition); c != nil && c.LastTransitionTime.After(since) {
		ready = c.LastTransitionTime.Time
	}
	attributes := append(traceAttributes(s.hostMachine), tracing.HostKey.String(s.host.Name))
	ctx = r.Tracer.Root(ctx, tracing.OfClaim(s.hostMachine.Spec.ClaimID), tracing.Span{
		Name: "provision a machine", Start: s.hostMachine.CreationTimestamp.Time, End: ready, Attributes: attributes,
	})
	r.Tracer.Child(ctx, tracing.Span{Name: "wait for the Node", Start: since, End: ready, Attributes: attributes})
}

func traceAttributes(m *infrav1.HostMachine) []attribute.KeyValue {
	return []attribute.KeyValue{
		tracing.NamespaceKey.String(m.Namespace), tracing.ClusterKey.String(m.Labels[clusterv1.ClusterNameLabel]),
		tracing.HostMachineKey.String(m.Name), tracing.ClaimKey.String(m.Spec.ClaimID),
	}
}
