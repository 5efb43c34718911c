package doctor

import (
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// stopped has the kubelet of the first host not run for that long.
func stopped(age time.Duration) func(s *Snapshot) {
	return func(s *Snapshot) {
		s.Hosts[0].Status.Services = []infrav1.HostService{{Name: "containerd", State: "active"}, {Name: "kubelet", State: "failed", Since: ago(age)}}
	}
}

var _ = add([]testCase{
	{"a kubelet has stopped", stopped(time.Second), []want{{"ServiceDown", Note, h1, time.Second, "kubelet of the host is failed since 2026-05-04T11:59:59Z", "on the host: systemctl restart kubelet"}}},
	{"a kubelet has been stopped for a minute", stopped(time.Minute), []want{{"ServiceDown", Warning, h1, time.Minute, "kubelet", "systemctl"}}},
	{"a kubelet has been stopped for long", stopped(time.Hour), []want{{"ServiceDown", Error, h1, time.Hour, "kubelet", "systemctl"}}},
	{"a kubelet was stopped when its agent went away", func(s *Snapshot) {
		stopped(time.Hour)(s)
		away(time.Second, "silent")(s)
	}, []want{{"HostDisconnected", Note, h1, time.Second, "silent", "systemctl restart slipway-agent"}}},
	{"a kubelet is stopped for a reset", func(s *Snapshot) {
		stopped(time.Hour)(s)
		s.Hosts[0].Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredReset, OperationID: "reset"}
	}, nil},
}...)
