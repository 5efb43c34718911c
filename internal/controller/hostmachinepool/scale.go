package hostmachinepool

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/pool"
	"github.com/slipway-dev/slipway/internal/reconciler"
	"github.com/slipway-dev/slipway/internal/text"
)

// makePlan plans over what the scope holds now.
func (s *scope) makePlan() (pool.Plan, error) {
	seen, err := s.observe()
	if err != nil {
		return pool.Plan{}, err
	}
	s.plan, s.planned = pool.MakePlan(seen), true
	return s.plan, nil
}

// observe returns what plans are made of.
func (s *scope) observe() (pool.Pool, error) {
	strategy, err := pool.NewStrategy(s.pool.Spec.Strategy, s.desired())
	if err != nil {
		return pool.Pool{}, err
	}
	seen := pool.Pool{
		Desired:  s.desired(),
		Version:  s.version(),
		Revision: s.revision,
		Strategy: strategy,
		Hold:     s.outOfDate,
		External: s.external(),
		Deleting: s.deleting() || !s.machinePool.DeletionTimestamp.IsZero(),
		Frozen:   s.frozen,
		Stalled:  s.stalled,
		Members:  s.members(),
	}
	if s.hosts != nil {
		seen.FreeHosts, seen.Domains = s.hosts.free, s.hosts.domains
	}
	if s.pool.Spec.Spread != nil {
		seen.HardSpread = ptr.Deref(s.pool.Spec.Spread.Hard, false)
	}
	return seen, nil
}

// carryOut brings the pool nearer to its size, version and revision.
func (r *Reconciler) carryOut(ctx context.Context, s *scope) error {
	plan, err := reconciler.Replan(s.makePlan, func(p pool.Plan) bool { return len(p.Steps) > 0 }, func() error { return r.readLive(ctx, s) })
	if err != nil {
		return err
	}
	var create []pool.Step
	for _, step := range plan.Steps {
		if step.Action == pool.ActionCreate {
			create = append(create, step)
		} else if err := r.do(ctx, s, step); err != nil {
			return err
		}
	}
	if err := r.create(ctx, s, create); err != nil {
		return err
	}
	r.reportSteps(s)
	return nil
}

// readLive reads past the cache what a plan is made of.
func (r *Reconciler) readLive(ctx context.Context, s *scope) error {
	if err := s.read(ctx, r.APIReader); err != nil || s.deleting() {
		return err
	}
	if err := r.confirm(ctx, s); err != nil {
		return err
	}
	if err := r.computeRevision(ctx, s, false); err != nil {
		return err
	}
	if s.givesUpHosts() {
		return r.countFreeHosts(ctx, s, r.APIReader)
	}
	return nil
}

// createsAtOnce keeps the first reconcile of a pool of thousands short.
const createsAtOnce = 10

// create makes members, after all that makes room for them. When one can't be made,
// the pool has fewer until the next reconcile.
func (r *Reconciler) create(ctx context.Context, s *scope, steps []pool.Step) error {
	var group errgroup.Group
	group.SetLimit(createsAtOnce)
	made := make([]*infrav1.HostMachine, len(steps))
	for i, step := range steps {
		machine := newHostMachine(s, step)
		group.Go(func() error {
			if err := r.Client.Create(ctx, machine); err != nil {
				return fmt.Errorf("create a HostMachine: %w", err)
			}
			ctrl.LoggerFrom(ctx).Info("Created HostMachine", "HostMachine", klog.KObj(machine), "reason", step.Reason)
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

// do carries out one step that creates nothing.
func (r *Reconciler) do(ctx context.Context, s *scope, step pool.Step) error {
	log := ctrl.LoggerFrom(ctx).WithValues("action", step.Action, "reason", step.Reason)
	key := metav1.ObjectMeta{Namespace: s.pool.Namespace, Name: step.Name}
	var err error
	switch step.Action {
	case pool.ActionCreate:
		return nil
	case pool.ActionDeleteMachine:
		err = r.Client.Delete(ctx, &clusterv1.Machine{ObjectMeta: key})
		log = log.WithValues("Machine", klog.KRef(key.Namespace, key.Name))
	case pool.ActionDeleteHostMachine:
		err = r.Client.Delete(ctx, &infrav1.HostMachine{ObjectMeta: key})
		log = log.WithValues("HostMachine", klog.KRef(key.Namespace, key.Name))
	case pool.ActionUpgrade:
		err = r.change(ctx, s, step.Name, func(m *infrav1.HostMachine) { m.Spec.Version = s.version() })
		log = log.WithValues("HostMachine", klog.KRef(key.Namespace, key.Name))
	case pool.ActionMove:
		err = r.change(ctx, s, step.Name, func(m *infrav1.HostMachine) { m.Spec.Spread = spreadOf(s, step.Domain) })
		log = log.WithValues("HostMachine", klog.KRef(key.Namespace, key.Name), "domain", step.Domain)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("%s %s: %w", step.Action, step.Name, err)
	}
	log.Info("Changed the pool")
	return nil
}

// change patches a HostMachine, and the scope's copy of it.
func (r *Reconciler) change(ctx context.Context, s *scope, name string, mutate func(*infrav1.HostMachine)) error {
	for i := range s.hostMachines {
		m := &s.hostMachines[i]
		if m.Name != name {
			continue
		}
		before := m.DeepCopy()
		mutate(m)
		return r.Client.Patch(ctx, m, client.MergeFrom(before))
	}
	return nil
}

func (r *Reconciler) reportSteps(s *scope) {
	first := map[pool.Action]string{}
	for _, step := range s.plan.Steps {
		if first[step.Action] == "" {
			first[step.Action] = step.Reason
		}
	}
	report := func(event, action, verb string, actions ...pool.Action) {
		for _, a := range actions {
			if n := s.plan.Count(a); n > 0 {
				r.Recorder.Eventf(s.pool, nil, "Normal", event, action, "%s %s: %.900s", verb, text.Plural(n, "machine"), first[a])
			}
		}
	}
	report("ScaledUp", "Scale", "Adding", pool.ActionCreate)
	report("ScaledDown", "Scale", "Removing", pool.ActionDeleteMachine, pool.ActionDeleteHostMachine)
	report("UpgradingInPlace", "Upgrade", "Upgrading in place", pool.ActionUpgrade)
}

// maxPrefix keeps the name of a member a valid label value and host name.
const maxPrefix = 63 - 6

// memberPrefix begins the names of a pool's members. A pool's name may have a dot where it is cut, after
// which the API takes no dash.
func memberPrefix(pool string) string {
	return strings.TrimRight(pool[:min(len(pool), maxPrefix)], ".-") + "-"
}

// newHostMachine makes a member, with all that it will ever need: each later write
// would cost one for each machine. Its reference to the pool is not that of a
// controller: core makes the Machine its controller.
func newHostMachine(s *scope, step pool.Step) *infrav1.HostMachine {
	labels := map[string]string{infrav1.RevisionLabel: s.revision}
	for key, value := range s.memberLabels() {
		labels[key] = value
	}
	if filter, ok := s.pool.Labels[clusterv1.WatchLabel]; ok {
		labels[clusterv1.WatchLabel] = filter
	}
	machine := &infrav1.HostMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       s.pool.Namespace,
			Name:            memberPrefix(s.pool.Name) + rand.String(5),
			Labels:          labels,
			OwnerReferences: []metav1.OwnerReference{ownerReference(s.pool)},
			Finalizers:      []string{infrav1.HostMachineFinalizer},
		},
		Spec: infrav1.HostMachineSpec{
			// The intent to claim, which a machine alone records in a write of its own.
			ClaimID:     string(uuid.NewUUID()),
			Placement:   s.pool.Spec.Placement,
			NodeLabels:  s.pool.Spec.NodeLabels,
			ResetPolicy: s.pool.Spec.ResetPolicy,
			Version:     s.version(),
			Spread:      spreadOf(s, step.Domain),
		},
	}
	if step.Replaces != "" {
		machine.Annotations = map[string]string{infrav1.ReplacesAnnotation: step.Replaces}
	}
	return machine
}

func ownerReference(pool *infrav1.HostMachinePool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: infrav1.GroupVersion.String(), Kind: "HostMachinePool", Name: pool.Name, UID: pool.UID}
}

func spreadOf(s *scope, domain string) *infrav1.SpreadDomain {
	if domain == "" || s.pool.Spec.Spread == nil {
		return nil
	}
	return &infrav1.SpreadDomain{Key: s.pool.Spec.Spread.Key, Value: domain, Hard: s.pool.Spec.Spread.Hard}
}
