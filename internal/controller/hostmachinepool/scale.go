package hostmachinepool

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// scale makes and deletes machines. The plan from the cache only says whether
// there may be something to do; what is done comes from a plan over live reads, so
// that a cache that lags behind never doubles a step.
func (r *Reconciler) scale(ctx context.Context, s *scope) error {
	if makePlan(s.desired(), s.members()).empty() {
		return nil
	}
	if err := s.read(ctx, r.APIReader); err != nil {
		return err
	}
	p := makePlan(s.desired(), s.members())
	if err := r.create(ctx, s, p.create); err != nil {
		return err
	}
	for _, name := range p.deleteMachines {
		machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.pool.Namespace, Name: name}}
		if err := r.delete(ctx, s, machine); err != nil {
			return err
		}
	}
	for _, name := range p.deleteHostMachines {
		machine := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: s.pool.Namespace, Name: name}}
		if err := r.delete(ctx, s, machine); err != nil {
			return err
		}
	}
	r.reportScale(s, p)
	return nil
}

// createsAtOnce keeps the first reconcile of a pool of thousands short.
const createsAtOnce = 10

// create makes members. When one can't be made, the pool has fewer until the next
// reconcile.
func (r *Reconciler) create(ctx context.Context, s *scope, n int) error {
	var group errgroup.Group
	group.SetLimit(createsAtOnce)
	made := make([]*infrav1.HostMachine, n)
	for i := range made {
		machine := newHostMachine(s)
		group.Go(func() error {
			if err := r.Client.Create(ctx, machine); err != nil {
				return fmt.Errorf("create a HostMachine: %w", err)
			}
			ctrl.LoggerFrom(ctx).Info("Created HostMachine", "HostMachine", machine.Name)
			made[i] = machine
			return nil
		})
	}
	err := group.Wait()
	for _, machine := range made {
		if machine != nil {
			s.hostMachines = append(s.hostMachines, *machine)
		}
	}
	return err
}

func (r *Reconciler) delete(ctx context.Context, s *scope, o client.Object) error {
	if err := r.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %T %s: %w", o, o.GetName(), err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted member", "kind", fmt.Sprintf("%T", o), "name", o.GetName(), "desired", s.desired())
	return nil
}

func (r *Reconciler) reportScale(s *scope, p plan) {
	if p.create > 0 {
		r.Recorder.Eventf(s.pool, nil, "Normal", "ScaledUp", "Scale", "Added %d machines", p.create)
	}
	if n := len(p.deleteMachines) + len(p.deleteHostMachines); n > 0 {
		r.Recorder.Eventf(s.pool, nil, "Normal", "ScaledDown", "Scale", "Removing %d machines", n)
	}
}

// maxPrefix keeps the name of a member a valid label value and host name.
const maxPrefix = 63 - 6

// newHostMachine makes a member. Its reference to the pool is not that of a
// controller: core makes the Machine its controller.
func newHostMachine(s *scope) *infrav1.HostMachine {
	prefix := s.pool.Name
	if len(prefix) > maxPrefix {
		prefix = prefix[:maxPrefix]
	}
	labels := map[string]string{}
	for key, value := range s.memberLabels() {
		labels[key] = value
	}
	if filter, ok := s.pool.Labels[clusterv1.WatchLabel]; ok {
		labels[clusterv1.WatchLabel] = filter
	}
	return &infrav1.HostMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.pool.Namespace,
			Name:      prefix + "-" + rand.String(5),
			Labels:    labels,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: infrav1.GroupVersion.String(), Kind: "HostMachinePool", Name: s.pool.Name, UID: s.pool.UID,
			}},
			Finalizers: []string{infrav1.HostMachineFinalizer},
		},
		Spec: infrav1.HostMachineSpec{
			// The intent to claim, which a machine alone records in a write of its own.
			ClaimID:     string(uuid.NewUUID()),
			Placement:   s.pool.Spec.Placement,
			ResetPolicy: s.pool.Spec.ResetPolicy,
		},
	}
}
