package doctor

import (
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

var _ = register(Check{
	Layer:  Housekeeping + 2,
	Name:   "BlockMoveLeft",
	Effect: Remark,
	Means:  "a host without a cluster still blocks `clusterctl move` of the whole namespace",
	Remedy: "The manager removes such an annotation; check that it runs. If the Host is paused, or the Cluster of its claim is gone permanently, remove it by hand.",
	find: func(s *Snapshot) []Finding {
		if !s.knows("Cluster") {
			return nil
		}
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			if !host.BlocksMove(h) || h.Spec.Claim != nil && s.Cluster(h.Namespace, h.Spec.Claim.ClusterName) != nil {
				return none()
			}
			f := atHost(h, Warning)
			f.Message = "annotation " + clusterctlv1.BlockMoveAnnotation + " was left behind: there is no Cluster that the host is of"
			return f.next("kubectl annotate %s -n %s %s-", f.Object.Resource(), h.Namespace, clusterctlv1.BlockMoveAnnotation), true
		})
	},
})
