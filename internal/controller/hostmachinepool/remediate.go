package hostmachinepool

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/reconciler"
	"github.com/slipway-dev/slipway/internal/remediation"
	"github.com/slipway-dev/slipway/internal/rollout"
)

// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostmachines,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch

// remediate acts on the machines that a MachineHealthCheck left to their owner,
// which core does for no machine of a pool. It stands before carryOut, so that the
// machine it makes in the place of another is not made twice. Like carryOut, it
// acts on live reads only. A pool that is being deleted, or whose Cluster is, remediates
// nothing.
func (r *Reconciler) remediate(ctx context.Context, s *scope) error {
	if s.frozen != "" {
		return s.remediatesNothing()
	}
	plan, err := r.planRemediation(ctx, s, r.Client)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(plan.Decisions, acts) {
		if err := r.confirm(ctx, s); err != nil {
			return err
		}
		if s.frozen != "" {
			return s.remediatesNothing()
		}
		if err := s.read(ctx, r.APIReader); err != nil {
			return err
		}
		if plan, err = r.planRemediation(ctx, s, r.APIReader); err != nil {
			return err
		}
	}
	s.requeue(plan.After)
	pending := remediationSummary{}
	for _, d := range plan.Decisions {
		if err := r.remediateMember(ctx, s, d); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			ctrl.LoggerFrom(ctx).V(4).Info("Requeuing after conflict", "conflict", err.Error())
			s.requeue(reconciler.ConflictRetry)
		} else if err != nil {
			return err
		}
		pending.add(s.machineOf(d.Member), d)
	}
	conditions.Set(s.pool, pending.condition())
	return nil
}

func (s *scope) remediatesNothing() error {
	conditions.Set(s.pool, metav1.Condition{
		Type: clusterv1.RemediatingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotRemediatingReason, Message: s.frozen + ": no machine is remediated",
	})
	return nil
}

// now has whole seconds, as times in the API have.
func (r *Reconciler) now() time.Time { return r.Clock.Now().UTC().Truncate(time.Second) }

func acts(d remediation.Decision) bool {
	return d.Kind == remediation.Begin || d.Kind == remediation.Pin
}

// planRemediation reads from reader who waits for the hosts that are free.
func (r *Reconciler) planRemediation(ctx context.Context, s *scope, reader client.Reader) (remediation.Plan, error) {
	policy, err := remediation.NewPolicy(s.pool.Spec.Remediation, s.desired())
	if err != nil {
		return remediation.Plan{}, err
	}
	in := remediation.Input{Policy: policy, Now: r.now()}
	failing, waiting, replaced := false, 0, s.replaced()
	for i := range s.hostMachines {
		m := &s.hostMachines[i]
		member := remediation.Member{
			Name: m.Name, Created: m.CreationTimestamp.Time, Health: remediation.Unknown,
			Leaving: !m.DeletionTimestamp.IsZero(), Replaced: replaced[m.Name],
			Claimed: m.Spec.ProviderID != "", Provisioned: provisioned(m),
			Evacuate:     evacuating(m),
			RebootFailed: conditions.GetReason(m, infrav1.RebootedCondition) == infrav1.HostMachineRebootFailedReason,
			Attempt:      remediation.ParseAttempt(m.Annotations),
		}
		if machine := s.machineOf(m.Name); machine != nil {
			member.Health = health(machine)
			member.Leaving = member.Leaving || !machine.DeletionTimestamp.IsZero()
			member.Skipped = skipped(machine)
		}
		if member.Health == remediation.Unhealthy || (member.Attempt != nil && !member.Provisioned) {
			failing = true
			if member.Connected, err = r.connected(ctx, m); err != nil {
				return remediation.Plan{}, err
			}
		}
		if !member.Leaving && !member.Provisioned {
			if member.UnbegunSince, err = r.unbegunSince(ctx, s, m); err != nil {
				return remediation.Plan{}, err
			}
			failing = failing || !member.UnbegunSince.IsZero()
		}
		if !member.Leaving && !member.Claimed && m.Spec.HostName == "" {
			waiting++
		}
		in.Members = append(in.Members, member)
	}
	if failing {
		if err := r.countFreeHosts(ctx, s, reader); err != nil {
			return remediation.Plan{}, err
		}
		in.SpareHosts = s.hosts.free - waiting
		if err := s.spread(&in); err != nil {
			return remediation.Plan{}, err
		}
	}
	return remediation.Make(in), nil
}

// spread tells in which failure domain the replacement of each member would have to be. A
// host elsewhere is no spare to it.
func (s *scope) spread(in *remediation.Input) error {
	pool, err := s.rolloutPool()
	if err != nil {
		return err
	}
	replacement := rollout.Replacements(pool)
	if replacement == nil {
		return nil
	}
	in.DomainSpares = map[string]int{}
	for i := range in.Members {
		domain := replacement(in.Members[i].Name)
		in.Members[i].Domain = domain.Name
		// A member that waits for a host counts that one as free for itself; to all others it
		// is not.
		if spare, found := in.DomainSpares[domain.Name]; !found || domain.Free < spare {
			in.DomainSpares[domain.Name] = domain.Free
		}
	}
	return nil
}

// health reads what MachineHealthChecks wrote. They leave remediation to the owner
// by condition OwnerRemediated, and don't while too many machines are unhealthy.
func health(m *clusterv1.Machine) remediation.Health {
	switch {
	case conditions.IsTrue(m, clusterv1.MachineHealthCheckSucceededCondition):
		return remediation.Healthy
	case !conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition):
		return remediation.Unknown
	case conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition):
		return remediation.Unhealthy
	default:
		return remediation.Failing
	}
}

// skipped reports whether an operator wants the machine not to be remediated. The mark of a
// machine that waits for a host is for MachineHealthChecks only.
func skipped(m *clusterv1.Machine) bool {
	mark, found := m.Annotations[clusterv1.MachineSkipRemediationAnnotation]
	return found && mark != infrav1.WaitingForHostMark
}

// replaced are the machines in whose place another was made.
func (s *scope) replaced() map[string]bool {
	replaced := map[string]bool{}
	for i := range s.hostMachines {
		if attempt := remediation.ParseAttempt(s.hostMachines[i].Annotations); attempt != nil && attempt.Replaces != "" {
			replaced[attempt.Replaces] = true
		}
	}
	return replaced
}

func (s *scope) hostMachine(name string) *infrav1.HostMachine {
	for i := range s.hostMachines {
		if s.hostMachines[i].Name == name {
			return &s.hostMachines[i]
		}
	}
	return nil
}

// connected says whether the agent of a member's host is. A host that is gone is
// not.
func (r *Reconciler) connected(ctx context.Context, m *infrav1.HostMachine) (bool, error) {
	_, name, _, ok := host.ParseProviderID(m.Spec.ProviderID)
	if !ok {
		return false, nil
	}
	h := &infrav1.Host{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: name}, h); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return host.Connected(h), nil
}
