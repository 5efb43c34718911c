package sandbox

import (
	"time"

	"github.com/slipway-dev/slipway/plane/internal/sandbox/unit"
)

// containerdSocket is the CRI endpoint of a host.
const containerdSocket = "/run/containerd/containerd.sock"

// DefaultUnits are the services of every host, in the order of their start. The
// kubelet's is the unit file and drop-in that Kubernetes publishes for kubeadm, and what a
// local host adds to the configuration of its cluster.
func DefaultUnits() []unit.Unit {
	return []unit.Unit{
		{
			Name:        "containerd",
			Description: "containerd container runtime",
			Argv:        []string{"containerd"},
			ReadySocket: containerdSocket,
		},
		{
			Name:        "kubelet",
			Description: "kubelet: The Kubernetes Node Agent",
			Argv: []string{"kubelet",
				"--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf", "--kubeconfig=/etc/kubernetes/kubelet.conf",
				"--config=/var/lib/kubelet/config.yaml", "--config-dir=" + kubeletConfigs, "$KUBELET_KUBEADM_ARGS", "$KUBELET_EXTRA_ARGS"},
			EnvironmentFiles: []string{"/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet"},
			ConditionPath:    "/var/lib/kubelet/config.yaml",
			After:            []string{"containerd"},
			KillGroup:        true,
		},
		{
			Name:          "slipway-agent",
			Description:   "Slipway host agent",
			Argv:          []string{"slipway-agent", "run"},
			ConditionPath: "/etc/slipway/agent.yaml",
			After:         []string{"containerd"},
			RestartDelay:  time.Second,
			KillGroup:     true,
		},
	}
}
