package doctor

import (
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ended has the certificate of the first host's kubelet have ended so long ago.
func ended(age time.Duration) func(s *Snapshot) {
	return func(s *Snapshot) { s.Hosts[0].Status.KubeletCertificateExpires = ptr.To(ago(age)) }
}

var _ = add([]testCase{
	{"a kubelet does not renew its certificate", ended(-time.Hour), []want{{"KubeletCertificateExpires", Warning, h1, 0, "ends at 2026-05-04T13:00:00Z", "on the host: systemctl restart kubelet"}}},
	{"the certificate of a kubelet has ended", ended(time.Hour), []want{{"KubeletCertificateExpires", Error, h1, time.Hour, "ended at 2026-05-04T11:00:00Z", "kubectl describe host"}}},
	{"the certificate of a worker's kubelet has ended", func(s *Snapshot) {
		ended(time.Hour)(s)
		delete(s.Machines[0].Labels, clusterv1.MachineControlPlaneLabel)
	}, []want{{"KubeletCertificateExpires", Error, h1, time.Hour, "ended at 2026-05-04T11:00:00Z", "kubectl delete machine a-1 -n prod"}, {"NoHealthCheck", Note, "Cluster prod/a", 24 * time.Hour, "1 of its workers", "MachineHealthCheck"}}},
	{"the certificate of a kubelet had ended when its agent went away", func(s *Snapshot) {
		ended(time.Hour)(s)
		away(time.Second, "silent")(s)
	}, []want{{"HostDisconnected", Note, h1, time.Second, "silent", "systemctl restart slipway-agent"}}},
}...)
