package hostmachine

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// Rights on Secrets are not generated: config/rbac/secrets_role.yaml, which is bound by namespace.

// clusterCARetry is when to look again for the kubeconfig of a cluster. Secrets are not
// watched.
const clusterCARetry = 10 * time.Second

// takeNode claims the host that the machine asks to adopt. Placement has no say: the
// host must be one that nobody else could claim. It returns nil, and says why in the
// scope, when it cannot be had now. The choice is made on a live read, whose
// resourceVersion the one Update carries.
func (r *Reconciler) takeNode(ctx context.Context, s *scope) (*infrav1.Host, error) {
	name := s.hostMachine.Spec.Adopt.HostName
	if s.owner.ControlPlane {
		s.waiting = &waiting{infrav1.HostMachineWorkersOnlyReason, s.owner.Description + " is of a control plane: only workers are adopted. Delete the Machine"}
		return nil, nil
	}
	if known, err := r.clusterCAs(ctx, s); err != nil || len(known) == 0 {
		return nil, err
	}
	live := &infrav1.Host{}
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: s.hostMachine.Namespace, Name: name}, live)
	if apierrors.IsNotFound(err) {
		s.waiting = &waiting{infrav1.HostMachineHostNotFoundReason, fmt.Sprintf("There is no Host %s in this namespace; enroll the agent on it", name)}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Host %s: %w", name, err)
	}
	if s.waiting, err = r.judgeNode(ctx, s, live); err != nil || s.waiting != nil {
		return nil, err
	}
	return r.take(ctx, s, live)
}

// judgeNode says why the node on the host cannot be claimed now; nil when it can.
func (r *Reconciler) judgeNode(ctx context.Context, s *scope, live *infrav1.Host) (*waiting, error) {
	if why := host.Unadoptable(live, host.Connected(live)); why != (host.State{}) {
		return &waiting{why.Reason, why.Message}, nil
	}
	if version := s.version(); version != "" && !host.Offers(live, version) {
		return &waiting{infrav1.HostMachineVersionMismatchReason, fmt.Sprintf("Host %s has Kubernetes %v, and %s asks for %s. Ask for the version that its kubelet runs: adoption upgrades nothing",
			live.Name, live.Status.Inventory.KubernetesVersions, s.owner.Description, version)}, nil
	}
	snapshot, err := placement.Read(ctx, r.Client, live.Namespace)
	if err != nil {
		return nil, err
	}
	if why := snapshot.Former(live).Reason(s.cluster.Name, s.owner.MachinePool); why != "" {
		return &waiting{infrav1.HostMachineNodeLeavingReason, fmt.Sprintf("Host %s cannot be claimed yet: %s, and Cluster API deletes Nodes by name", live.Name, why)}, nil
	}
	return nil, nil
}

// adoptOperation has the agent take over the node, if it is one of the machine's cluster.
func (r *Reconciler) adoptOperation(ctx context.Context, s *scope) (*infrav1.HostDesired, error) {
	known, err := r.clusterCAs(ctx, s)
	if err != nil {
		return nil, err
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("adopt Host %s: %s", s.host.Name, s.waiting.message)
	}
	return &infrav1.HostDesired{
		Phase:       infrav1.HostDesiredAdopted,
		OperationID: host.AdoptOperationID(s.hostMachine.Spec.ClaimID),
		Version:     s.version(),
		ProviderID:  s.hostMachine.Spec.ProviderID,
		ClusterCAs:  known,
	}, nil
}

// clusterCAs are the hashes of the certificate authorities of the machine's cluster, as
// the kubeconfig has them by which Cluster API reaches it. It returns none, and says so
// in the scope, while that isn't known.
func (r *Reconciler) clusterCAs(ctx context.Context, s *scope) ([]string, error) {
	cluster := client.ObjectKeyFromObject(s.cluster)
	name := secret.Name(cluster.Name, secret.Kubeconfig)
	unknown := func(why string) ([]string, error) {
		s.waiting = &waiting{infrav1.HostMachineWaitingForClusterCAReason, fmt.Sprintf("Secret %s does not tell the certificate authority of Cluster %s: %s", name, cluster.Name, why)}
		s.requeueAfter = clusterCARetry
		return nil, nil
	}
	found, err := secret.GetFromNamespacedName(ctx, r.APIReader, cluster, secret.Kubeconfig)
	if apierrors.IsNotFound(err) {
		return unknown("it does not exist")
	}
	if why := reconciler.MissingSecretRights(err, cluster.Namespace); why != "" {
		return unknown(why)
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %s: %w", name, err)
	}
	config, err := clientcmd.Load(found.Data[secret.KubeconfigDataName])
	if err != nil {
		// What cannot be parsed is not repeated: it holds a credential.
		return unknown("it holds no kubeconfig")
	}
	if current := config.Contexts[config.CurrentContext]; current != nil {
		if server := config.Clusters[current.Cluster]; server != nil {
			if hashes := host.HashCAs(server.CertificateAuthorityData); len(hashes) > 0 {
				return hashes, nil
			}
		}
	}
	return unknown("its current context has no certificate-authority-data")
}

// giveBack ends the claim on a host whose agent refused to adopt its node. The machine
// tells why before: with the claim goes the agent's report.
func (r *Reconciler) giveBack(ctx context.Context, s *scope, h *infrav1.Host) error {
	if s.waiting = refusal(s.hostMachine); s.waiting != nil {
		return r.withdraw(ctx, s, h.DeepCopy())
	}
	message := host.FailureMessage(host.Observed(h))
	s.waiting = &waiting{infrav1.HostAdoptionRefusedReason, fmt.Sprintf("Host %s was not adopted and is as it was: %s. Delete the Machine; when that is mended, another one may ask again", h.Name, message)}
	r.Recorder.Eventf(s.hostMachine, h, "Warning", infrav1.HostAdoptionRefusedReason, "Adopt", "Host %s: %.900s", h.Name, message)
	return nil
}

// refusal is what a machine tells of an adoption that was refused; nil when none was.
func refusal(m *infrav1.HostMachine) *waiting {
	condition := conditions.Get(m, infrav1.HostClaimedCondition)
	if condition == nil || condition.Reason != infrav1.HostAdoptionRefusedReason {
		return nil
	}
	return &waiting{condition.Reason, condition.Message}
}

// withdraw ends the claim on a node that was not adopted, with the resourceVersion h
// was read with.
func (r *Reconciler) withdraw(ctx context.Context, s *scope, h *infrav1.Host) error {
	claimID := h.Spec.Claim.ClaimID
	if !host.Withdraw(h) {
		return nil
	}
	r.Hooks.MarkReleased(ctx, h)
	if err := r.Client.Update(ctx, h); err != nil {
		return fmt.Errorf("end the claim on Host %s: %w", h.Name, err)
	}
	s.withdrawn = true
	ctrl.LoggerFrom(ctx).Info("Withdrew the claim on a node that was not adopted", "Host", klog.KObj(h), "claim", claimID)
	r.Recorder.Eventf(s.hostMachine, h, "Normal", "AdoptionWithdrawn", "Release", "Gave Host %s back as it is: its node was not adopted", h.Name)
	return nil
}
