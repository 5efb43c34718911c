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
	"github.com/slipway-dev/slipway/internal/pool"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostmachines,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch

// remediate acts on the machines that a MachineHealthCheck left to their owner,
// which core does for no machine of a pool. It stands before carryOut, so that the
// machine it makes in the place of another is not made twice. A pool that is being deleted,
// or whose Cluster is, remediates nothing.
func (r *Reconciler) remediate(ctx context.Context, s *scope) error {
	reader := client.Reader(r.Client)
	plan, err := reconciler.Replan(
		func() (pool.Remediation, error) { return r.planRemediation(ctx, s, reader) },
		func(p pool.Remediation) bool { return slices.ContainsFunc(p.Decisions, acts) },
		func() error {
			reader = r.APIReader
			if err := r.confirm(ctx, s); err != nil || s.frozen != "" {
				return err
			}
			return s.read(ctx, reader)
		})
	switch {
	case err != nil:
		return err
	case s.frozen != "":
		return s.remediatesNothing()
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

func acts(d pool.Decision) bool {
	return d.Kind == pool.DecisionBegin || d.Kind == pool.DecisionPin
}

// planRemediation reads from reader who waits for the hosts that are free. It is empty for a pool
// that remediates nothing.
func (r *Reconciler) planRemediation(ctx context.Context, s *scope, reader client.Reader) (pool.Remediation, error) {
	if s.frozen != "" {
		return pool.Remediation{}, nil
	}
	policy, err := pool.NewRemediationPolicy(s.pool.Spec.Remediation, s.desired())
	if err != nil {
		return pool.Remediation{}, err
	}
	inTrouble, err := r.lookAtAgents(ctx, s)
	if err != nil {
		return pool.Remediation{}, err
	}
	if inTrouble {
		if err := r.countFreeHosts(ctx, s, reader); err != nil {
			return pool.Remediation{}, err
		}
	}
	seen, err := s.observe()
	if err != nil {
		return pool.Remediation{}, err
	}
	return pool.Remediate(pool.RemediationInput{Policy: policy, Pool: seen, Now: r.now()}), nil
}

// agentView is what the agent of a member's host tells.
type agentView struct {
	connected    bool
	unbegunSince time.Time
}

// lookAtAgents looks at the agents of members that are in trouble, or may be, and says whether
// any is.
func (r *Reconciler) lookAtAgents(ctx context.Context, s *scope) (inTrouble bool, err error) {
	s.agents = map[string]agentView{}
	for i, member := range pool.Observe(s.hostMachines, s.machines)[:len(s.hostMachines)] {
		m, agent := &s.hostMachines[i], agentView{}
		if member.Health == pool.Unhealthy || (member.Attempt != nil && !member.Provisioned) {
			inTrouble = true
			if agent.connected, err = r.connected(ctx, m); err != nil {
				return false, err
			}
		}
		if !member.Leaving && !member.Provisioned {
			if agent.unbegunSince, err = r.unbegunSince(ctx, s, m); err != nil {
				return false, err
			}
			inTrouble = inTrouble || !agent.unbegunSince.IsZero()
		}
		if agent != (agentView{}) {
			s.agents[m.Name] = agent
		}
	}
	return inTrouble, nil
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
