package reset

import "testing"

// TestInUnit: who listens is known by all hierarchies of control groups. On a machine with version 1 most processes are at
// the top of some.
func TestInUnit(t *testing.T) {
	for name, c := range map[string]struct {
		cgroup string
		want   bool
	}{
		"service":                       {"0::/system.slice/ssh.service\n", true},
		"session":                       {"0::/user.slice/user-0.slice/session-1.scope\n", true},
		"agent":                         {"0::/system.slice/slipway-agent.service\n", false},
		"in no cgroup":                  {"0::/\n", true},
		"own group":                     {"0::/own\n", false},
		"local host's services":         {"0::/init\n", true},
		"version 1, service":            {"12:rdma:/\n5:pids:/system.slice/ssh.service\n1:name=systemd:/system.slice/ssh.service\n", true},
		"version 1, agent":              {"12:rdma:/\n5:pids:/system.slice/slipway-agent.service\n", false},
		"version 1, in no cgroup":       {"12:rdma:/\n5:pids:/\n0::/\n", true},
		"version 1, own group":          {"12:rdma:/\n5:pids:/own\n0::/\n", false},
		"version 1, of another engine":  {"12:rdma:/\n5:pids:/docker/1234\n1:name=systemd:/docker/1234\n", false},
		"version 1, unit beside others": {"12:cpuset:/own\n1:name=systemd:/system.slice/ssh.service\n", true},
	} {
		if got := inUnit(c.cgroup); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
