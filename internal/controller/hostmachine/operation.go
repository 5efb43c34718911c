package hostmachine

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
)

// syncOperation requests the bootstrap of the host that the providerID names, so that no
// second host ever begins; later a reboot or an upgrade in place. Until the agent
// has bootstrapped the host, it keeps the name of the bootstrap Secret current; then
// it takes it away, since an agent may read the Secret only while it is named, and
// records that the bootstrap is done, since the agent's report may be lost.
func (r *Reconciler) syncOperation(ctx context.Context, s *scope) (bool, error) {
	var err error
	if s.release, err = placement.ReleaseOf(ctx, r.Client, s.version()); err != nil {
		return false, err
	}
	if host.Releasing(s.host) || (s.host.Spec.Desired == nil && s.owner == nil) {
		return true, nil
	}
	if _, stale := r.hosts.Over(s.host); stale {
		return true, nil
	}
	if drainsControlPlane(s) {
		r.drains.Lock()
		defer r.drains.Unlock()
	}
	changed, err := r.nextOperation(ctx, s)
	if err != nil {
		return false, err
	}
	if equality.Semantic.DeepEqual(s.host.Spec.Desired, changed.Spec.Desired) {
		return true, nil
	}
	if leaves, err := r.leaves(ctx, s, changed); err != nil || leaves {
		return s.host.Spec.Desired != nil, err
	}
	if err := r.writeOperation(ctx, s.host, changed); err != nil {
		return false, fmt.Errorf("request phase %s of Host %s: %w", changed.Spec.Desired.Phase, s.host.Name, err)
	}
	r.hosts.Note(s.host, changed, struct{}{})
	r.reportOperation(ctx, s, changed)
	s.host = changed
	return true, nil
}

// nextOperation is the host with the operation that it should have now. A reboot comes
// first: what is wrong with the host would fail the upgrade, too. A machine whose owner or
// Cluster is being deleted is not upgraded, but may be rebooted: its drain may need that.
func (r *Reconciler) nextOperation(ctx context.Context, s *scope) (*infrav1.Host, error) {
	changed := s.host.DeepCopy()
	if err := r.holdReboot(ctx, s); err != nil {
		return nil, err
	}
	if s.rebootHeld == "" && host.RequestReboot(changed, ptr.Deref(s.hostMachine.Spec.Reboots, 0), s.hostMachine.Spec.RebootPolicy) {
		return changed, nil
	}
	if s.leaving == "" && host.RequestUpgrade(changed, s.hostMachine.Spec.Version, s.release) {
		return changed, nil
	}
	desired, err := r.desired(ctx, s)
	if err != nil {
		return nil, err
	}
	changed.Spec.Desired = desired
	host.FollowRelease(changed, s.release)
	return changed, nil
}

// writeOperation changes the operation of a host that nobody changed since it was read. To
// record the end of the bootstrap, it is enough that the operation still is the same: the
// reports of that end meet there, and would conflict.
func (r *Reconciler) writeOperation(ctx context.Context, before, changed *infrav1.Host) error {
	if before.Spec.Desired == nil || before.Spec.Desired.BootstrapSecretName == "" {
		return r.Client.Update(ctx, changed)
	}
	recorded := before.Spec.Desired.DeepCopy()
	host.RecordBootstrap(recorded)
	if !equality.Semantic.DeepEqual(recorded, changed.Spec.Desired) {
		return r.Client.Update(ctx, changed)
	}
	return r.Client.Patch(ctx, changed, client.RawPatch(types.JSONPatchType, fmt.Appendf(nil,
		`[{"op":"test","path":"/spec/desired/operationID","value":%q},`+
			`{"op":"remove","path":"/spec/desired/bootstrapSecretName"},{"op":"add","path":"/spec/desired/bootstrapped","value":true}]`,
		before.Spec.Desired.OperationID)))
}

// reportOperation tells of an operation to a machine that runs, since it interrupts it.
func (r *Reconciler) reportOperation(ctx context.Context, s *scope, changed *infrav1.Host) {
	desired := changed.Spec.Desired
	if s.host.Spec.Desired == nil || s.host.Spec.Desired.OperationID == desired.OperationID {
		return
	}
	ctrl.LoggerFrom(ctx).Info("Requested an operation of a running host", "Host", klog.KObj(changed), "operation", desired.OperationID, "phase", desired.Phase, "version", desired.Version)
	switch desired.Phase {
	case infrav1.HostDesiredUpgraded:
		r.Recorder.Eventf(s.hostMachine, changed, "Normal", "UpgradeRequested", "Upgrade", "Requested the upgrade of Host %s to %s", changed.Name, desired.Version)
	case infrav1.HostDesiredRebooted:
		r.Recorder.Eventf(s.hostMachine, changed, "Normal", "RebootRequested", "Reboot", "Requested reboot %d of Host %s", *desired.Reboots, changed.Name)
	case infrav1.HostDesiredBootstrapped, infrav1.HostDesiredAdopted, infrav1.HostDesiredReset:
	}
}

// desired is the operation of the host. It is made once; of one that stands, only the
// Secret may change, and who makes the control plane as awaitControlPlane and withdrawInit say.
func (r *Reconciler) desired(ctx context.Context, s *scope) (*infrav1.HostDesired, error) {
	desired := s.host.Spec.Desired.DeepCopy()
	withdrawn := desired != nil && desired.BootstrapSecretName == ""
	if desired == nil {
		var err error
		if desired, err = r.newOperation(ctx, s); err != nil {
			return nil, err
		}
	}
	switch {
	case ptr.Deref(s.hostMachine.Status.Initialization.Provisioned, false):
		host.RecordBootstrap(desired)
	case desired.Phase == infrav1.HostDesiredBootstrapped && s.owner != nil && s.owner.BootstrapSecret != "" && !withdrawn:
		desired.BootstrapSecretName = s.owner.BootstrapSecret
	}
	if s.initializes != nil {
		desired.InitializesControlPlane = s.initializes
	}
	return desired, r.withdrawInit(ctx, s, desired)
}

func (r *Reconciler) newOperation(ctx context.Context, s *scope) (*infrav1.HostDesired, error) {
	if s.adopts() {
		return r.adoptOperation(ctx, s)
	}
	return &infrav1.HostDesired{
		Phase:       infrav1.HostDesiredBootstrapped,
		OperationID: host.BootstrapOperationID(s.hostMachine.Spec.ClaimID),
		Version:     s.version(),
		ProviderID:  s.hostMachine.Spec.ProviderID,
		NodeLabels:  host.NodeLabels(s.host, s.hostMachine.Status.FailureDomain, s.hostMachine.Spec.NodeLabels),

		ReleaseDigest: host.ReleaseDigest(s.host, s.version(), s.release),
		VirtualIP:     s.virtualIP.Host,
		VirtualIPPort: s.virtualIP.Port,
		IPFamilies:    ipFamilies(s.cluster),
	}, nil
}

// ipFamilies are those of the pod network, the primary one first, or of the services where the Cluster
// says nothing of pods.
func ipFamilies(cluster *clusterv1.Cluster) []infrav1.HostIPFamily {
	if cluster == nil {
		return nil
	}
	blocks := cluster.Spec.ClusterNetwork.Pods.CIDRBlocks
	if len(blocks) == 0 {
		blocks = cluster.Spec.ClusterNetwork.Services.CIDRBlocks
	}
	var families []infrav1.HostIPFamily
	for _, block := range blocks {
		network, err := netip.ParsePrefix(block)
		if err != nil {
			return nil // Cluster API and kubeadm say so.
		}
		family := infrav1.HostIPv4
		if network.Addr().Is6() {
			family = infrav1.HostIPv6
		}
		if !slices.Contains(families, family) {
			families = append(families, family)
		}
	}
	return families
}

// virtualIP is the endpoint whose address the hosts of a control plane hold; empty when
// somebody else does: a load balancer, or who manages the infrastructure of the cluster.
func virtualIP(hostCluster *infrav1.HostCluster) clusterv1.APIEndpoint {
	if hostCluster == nil || annotations.IsExternallyManaged(hostCluster) || hostCluster.Spec.Endpoint.Type == infrav1.EndpointExternal {
		return clusterv1.APIEndpoint{}
	}
	return hostCluster.Spec.ControlPlaneEndpoint
}
