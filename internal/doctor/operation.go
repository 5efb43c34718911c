package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// configurationRefused is the agent's reason for an upgrade that was refused before anything was changed.
const configurationRefused = "ConfigurationRefused"

var _ = register(Check{
	Layer:  Claim + 3,
	Name:   "OperationFailed",
	Means:  "the bootstrap, the adoption, an upgrade or a reboot of a host failed permanently",
	Remedy: "Repair what the message says. After a bootstrap delete the Machine, unless a MachineHealthCheck does; after an upgrade or a reboot increment `spec.reboots` of the HostMachine.",
	find: func(s *Snapshot) []Finding {
		machines := s.MachinesOnHosts()
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			state := host.StateOf(h)
			if state.Phase != infrav1.HostPhaseFailed {
				return none()
			}
			f := atHost(h, Error).next("kubectl describe hostmachine %s -n %s", h.Spec.Claim.MachineName, h.Namespace)
			switch machine := machines[client.ObjectKey{Namespace: h.Namespace, Name: h.Spec.Claim.MachineName}]; {
			case state.Reason == infrav1.HostBootstrapFailedReason && machine != nil:
				f = f.next("kubectl delete machine %s -n %s", machine.Name, machine.Namespace)
			case host.Observed(h) != nil && host.Observed(h).Reason == configurationRefused:
				// A reboot ends the node, and changes nothing about the configuration.
			case state.Reason == infrav1.UpgradeFailedReason || state.Reason == infrav1.HostRebootFailedReason:
				f = f.next("slipway host reboot %s -n %s", h.Name, h.Namespace)
			}
			f.Message = state.Message
			if c := condition(h.Status.Conditions, clusterv1.ReadyCondition, metav1.ConditionFalse, state.Reason); c != nil {
				f = f.since(c.LastTransitionTime.Time)
			}
			return f, true
		})
	},
})
