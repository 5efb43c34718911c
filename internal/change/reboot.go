package change

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// BeginRound records a round of reboots on a Cluster that has none. It takes the verbs get and patch on clusters.
func BeginRound(ctx context.Context, c client.Writer, cluster *clusterv1.Cluster, round Round) error {
	before := cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, infrav1.RebootRoundAnnotation, round.String())
	return patch(ctx, c, cluster, before)
}

// EndRound removes a round from its Cluster. It takes the verbs get and patch on clusters.
func EndRound(ctx context.Context, c client.Writer, cluster *clusterv1.Cluster) error {
	before := cluster.DeepCopy()
	delete(cluster.Annotations, infrav1.RebootRoundAnnotation)
	return patch(ctx, c, cluster, before)
}

// RebootInRound has the host of a machine, as it was read, drain and reboot once in a round. It takes the verbs get and
// patch on hostmachines.
func RebootInRound(ctx context.Context, c client.Writer, machine *infrav1.HostMachine, round Round) error {
	before := machine.DeepCopy()
	metav1.SetMetaDataAnnotation(&machine.ObjectMeta, infrav1.RebootRoundAnnotation, round.Began)
	machine.Spec.Reboots, machine.Spec.RebootPolicy = ptr.To(ptr.Deref(machine.Spec.Reboots, 0)+1), infrav1.RebootDrain
	return patch(ctx, c, machine, before)
}
