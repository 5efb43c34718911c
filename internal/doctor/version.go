package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

var _ = register(Check{
	Layer:  Machines + 8,
	Name:   "VersionMissing",
	Means:  "the host of a machine lacks the Kubernetes version of its upgrade",
	Remedy: "Load the host bundle of the version into the management cluster, for a host with `management: Managed`, or install it on the host; the upgrade continues by itself.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostMachines, func(m *infrav1.HostMachine) (Finding, bool) {
			if c := condition(m.Status.Conditions, infrav1.UpToDateCondition, metav1.ConditionFalse, infrav1.HostMachineVersionNotOfferedReason); c != nil {
				f := atHostMachine(m, Warning).of(c)
				if h := s.Host(m.Namespace, m.Status.HostRef.Name); h != nil && host.Managed(h) {
					return f.next("slipway bundle load DIRECTORY"), true
				}
				return f.next("on host %s: slipway-agent software install", m.Status.HostRef.Name), true
			}
			return none()
		})
	},
})
