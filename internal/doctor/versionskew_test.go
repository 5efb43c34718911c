package doctor

import (
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// versions adds a worker to the control plane's machine, and gives both a kubelet.
func versions(server, kubelet string) func(s *Snapshot) {
	return func(s *Snapshot) {
		s.Machines[0].Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: server}
		w := *healthy().Machines[0].DeepCopy()
		w.Name, w.Spec.InfrastructureRef.Name = "a-w", "a-w"
		delete(w.Labels, clusterv1.MachineControlPlaneLabel)
		w.Labels[clusterv1.MachinePoolNameLabel] = "pool"
		w.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: kubelet}
		s.Machines = append(s.Machines, w)
		healthCheckOf(s, "a", clusterv1.MachinePoolNameLabel)
	}
}

var _ = add([]testCase{
	{"a kubelet is newer than the API server", versions("v1.35.4", "v1.36.3"),
		[]want{{"VersionSkew", Error, "Machine prod/a-w", 0, "kubelet is of 1.36.3, and an API server of 1.35.4", "slipway cluster upgrade a -n prod --kubernetes-version v1.36.3"}}},
	{"a kubelet is too old for the API server", versions("v1.36.3", "v1.32.0"),
		[]want{{"VersionSkew", Error, "Machine prod/a-w", 0, "kubelet is of 1.32.0, and an API server of 1.36.3", "slipway cluster upgrade a -n prod --kubernetes-version v1.36.3"}}},
	{"a kubelet is three versions older", versions("v1.36.3", "v1.33.9"), nil},
	{"a kubelet is of a newer patch", versions("v1.36.3", "v1.36.5"), nil},
	{"a kubelet has no version", versions("v1.36.3", "?"), nil},
}...)
