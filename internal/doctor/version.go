package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var versionNotOffered = Check{
	Name:   "VersionMissing",
	Means:  "the host of a machine does not have the Kubernetes version that it is to be upgraded to",
	Remedy: "Install the version on the host, from a host bundle; the upgrade goes on by itself.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostMachines, func(m *infrav1.HostMachine) (Finding, bool) {
			if c := condition(m.Status.Conditions, infrav1.UpToDateCondition, metav1.ConditionFalse, infrav1.HostMachineVersionNotOfferedReason); c != nil {
				return atHostMachine(m, Warning).of(c).next("on host %s: slipway-agent software install", m.Status.HostRef.Name), true
			}
			return none()
		})
	},
}
