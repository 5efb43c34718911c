package doctor

import (
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// aged makes the condition of that kind as old.
func aged(s *Snapshot, kind string, age time.Duration) {
	for i := range s.Hosts {
		for j := range s.Hosts[i].Status.Conditions {
			if c := &s.Hosts[i].Status.Conditions[j]; c.Type == kind {
				c.LastTransitionTime = ago(age)
			}
		}
	}
	for j := range s.HostClusters[0].Status.Conditions {
		if c := &s.HostClusters[0].Status.Conditions[j]; c.Type == kind {
			c.LastTransitionTime = ago(age)
		}
	}
}

func away(age time.Duration, message string) func(s *Snapshot) {
	return func(s *Snapshot) {
		set(&s.Hosts[0].Status.Conditions, infrav1.AgentConnectedCondition, "False", infrav1.HostHeartbeatStaleReason, message)
		aged(s, infrav1.AgentConnectedCondition, age)
	}
}

func neverHeard(age time.Duration) func(s *Snapshot) {
	return func(s *Snapshot) {
		set(&s.Hosts[0].Status.Conditions, infrav1.AgentConnectedCondition, "False", infrav1.HostNoHeartbeatReason, "never heard")
		aged(s, infrav1.AgentConnectedCondition, age)
	}
}

func heldTwice(age time.Duration) func(s *Snapshot) {
	return func(s *Snapshot) {
		set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, "False", infrav1.EndpointHeldTwiceReason, "h1 and h2")
		aged(s, infrav1.EndpointHeldCondition, age)
	}
}

const heard = "The last heartbeat of the agent is of 2026-05-04T11:59:15Z by its own clock. Check the host's power"

var _ = add([]testCase{
	{"an agent has just gone", away(time.Second, heard), []want{{"HostDisconnected", Note, h1, 45 * time.Second, "last heartbeat", "systemctl"}}},
	{"an agent has been away for a minute", away(20*time.Second, "The last heartbeat of the agent is of 2026-05-04T11:58:59Z by its own clock"),
		[]want{{"HostDisconnected", Warning, h1, 61 * time.Second, "last heartbeat", "systemctl"}}},
	{"an agent has not reported yet", neverHeard(59 * time.Second), nil},
	{"an agent has not reported for a minute", neverHeard(time.Minute), []want{{"HostDisconnected", Warning, h1, time.Minute, "never heard", "systemctl"}}},
	{"an agent whose clock is years off has just gone", away(time.Second, "The last heartbeat of the agent is of 2001-05-04T11:58:59Z by its own clock"),
		[]want{{"HostDisconnected", Note, h1, time.Second, "last heartbeat", "systemctl"}}},
	{"an agent has been away while its host reboots", func(s *Snapshot) {
		away(8*time.Minute, "silent")(s)
		s.Hosts[0].Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredRebooted, OperationID: "r"}
	}, []want{{"HostDisconnected", Note, h1, 8 * time.Minute, "silent", "systemctl"}}},
	{"a host does not come back from its reboot", func(s *Snapshot) {
		away(10*time.Minute, "silent")(s)
		s.Hosts[0].Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredRebooted, OperationID: "r"}
	}, []want{{"HostDisconnected", Error, h1, 10 * time.Minute, "silent", "systemctl"}}},
	{"two hosts have the address for a moment", heldTwice(time.Second), []want{{"AddressHeldTwice", Note, "HostCluster prod/a", time.Second, "h1 and h2", "describe"}}},
	{"two hosts have the address for a minute", heldTwice(time.Minute), []want{{"AddressHeldTwice", Warning, "HostCluster prod/a", time.Minute, "h1 and h2", "describe"}}},
	{"a host was renamed a moment ago", func(s *Snapshot) {
		s.Hosts[1].Status.Node = &infrav1.HostNode{Name: "n2", HostName: "h2.lan"}
		set(&s.Hosts[1].Status.Conditions, infrav1.NodeIdentityKeptCondition, "False", infrav1.HostRenamedReason, "is called x")
		aged(s, infrav1.NodeIdentityKeptCondition, time.Second)
	}, []want{{"NodeIdentityChanged", Note, h2, time.Second, "is called x", "on the host: hostnamectl set-hostname h2.lan"}}},
}...)
