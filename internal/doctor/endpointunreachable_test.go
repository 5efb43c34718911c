package doctor

import (
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// cutOff has the first host not reach its cluster for that long.
func cutOff(age time.Duration) func(s *Snapshot) {
	return func(s *Snapshot) {
		s.Hosts[0].Status.EndpointFailure = &infrav1.HostEndpointFailure{Server: "https://[fd00::9]:6443", Message: "dial tcp: no route to host", Since: ago(age)}
	}
}

var _ = add([]testCase{
	{"a node does not reach its cluster", cutOff(time.Second), []want{{"EndpointUnreachable", Note, h1, time.Second, "the host does not reach the API server of its cluster: dial tcp: no route to host", "on the host: ip route get fd00::9"}}},
	{"a node has not reached its cluster for long", cutOff(time.Hour), []want{{"EndpointUnreachable", Error, h1, time.Hour, "no route", "ip route get"}}},
	{"a node did not reach its cluster when its agent went away", func(s *Snapshot) {
		cutOff(time.Hour)(s)
		away(time.Second, "silent")(s)
	}, []want{{"HostDisconnected", Note, h1, time.Second, "silent", "systemctl restart slipway-agent"}}},
	{"no node reaches its cluster, as nobody has the address", func(s *Snapshot) {
		cutOff(time.Hour)(s)
		set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, "False", infrav1.EndpointNotHeldReason, "nobody has it")
	}, []want{{"AddressNotHeld", Error, "HostCluster prod/a", 3 * time.Hour, "nobody has it", "describe"}}},
}...)
