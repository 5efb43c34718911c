package doctor

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Machines + 7,
	Name:   "RolloutStopped",
	Means:  "the rollout of a pool is paused: a machine of the new version failed, or nothing progressed within the deadline",
	Remedy: "Repair or delete the machines in the message; then, or with another version, the rollout continues.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostMachinePools, func(p *infrav1.HostMachinePool) (Finding, bool) {
			c := meta.FindStatusCondition(p.Status.Conditions, clusterv1.RollingOutCondition)
			if c == nil || !slices.Contains([]string{infrav1.RolloutFailedReason, infrav1.ProgressDeadlineExceededReason}, c.Reason) {
				return none()
			}
			return at(infrav1.GroupVersion, "HostMachinePool", p, Error).of(c).describe(), true
		})
	},
})
